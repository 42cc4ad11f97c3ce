"""Promises about the whole story: every incident ends and is told once, nothing is lost, no service falls over."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from sim_agent import SimAgent
from sim_checkers import (
    Budgets,
    Checker,
    Confirmed,
    Fenced,
    Innocent,
    Listed,
    OneLeader,
    OneStart,
    OneTopology,
    RecordFirst,
    Sound,
)
from sim_checkers_books import Counted
from sim_checkers_nodes import Harmless, Limited, NodeStories, OutOfUse
from sim_checkers_steps import Sized, SteppedOver, could_grow
from sim_events import GangWritten, MessageStored, SimEvent

from fault_contracts.agent import AgentPhase, CheckpointReported
from fault_contracts.envelope import open_envelope
from fault_contracts.policy import PolicyMode
from fault_contracts.recovery import ActionWithheld, IncidentClosed, IncidentOpened, JobEnded, RecoveryPlanned
from fault_contracts.registry import Stream
from recovery_planner.adapters.gang_codec import decode_history
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.rank_set import covers

if TYPE_CHECKING:
    from sim_world import World


def unrest(world: World, job: str) -> str:
    """Why a job has not come to an end of its troubles; empty: it trains, it is over, or it has too few agents."""
    agents = [agent for agent in world.agents_of(job) if not agent.is_leaving]
    gang = world.gangs.gangs.get(job)
    if gang is None:
        return f"{len(agents)} agents wait, and there is no record" if agents else ""
    if gang.pending:
        return f"{len(gang.pending)} effects are owed"
    match gang.phase:
        case Phase.RUNNING:
            return _untrue(world, gang) or could_grow(gang)
        case Phase.ENDED:
            return f"{agents[0].node_id} is still there" if agents else ""
        case Phase.FORMING:
            # A node that is held back is there and does not count.
            fit = [agent for agent in agents if gang.is_present(agent.node_id)]
            return "enough agents are there, and it does not form" if len(fit) >= gang.spec.nnodes else ""
        case Phase.STARTING | Phase.STOPPING | Phase.DECIDING | Phase.WAITING:
            return f"it is {gang.phase}"


def _untrue(world: World, gang: Gang) -> str:
    for node_id in gang.nodes:
        agent = world.agents.get(node_id)
        if node_id in gang.completed:
            continue
        if agent is None or agent.dead:
            return f"the record says running, and {node_id} is gone"
        if agent.version != gang.table.topology_version or not _works(agent, observed=observes(gang)):
            ranks = sorted(set(agent.ranks.values()))
            return f"the record says running {gang.table.topology_version}, {node_id} has {agent.version} {ranks}"
    return ""


def observes(gang: Gang) -> bool:
    """By the job's own words: its hangs stop nothing, they are told."""
    return gang.spec.policy is not None and gang.spec.policy.mode is PolicyMode.OBSERVE


def hangs_observed(world: World, gang: Gang) -> bool:
    """A rank hangs, and the job wants nothing done about it."""
    ranks = {state for agent in world.agents_of(gang.job_id) for state in agent.ranks.values()}
    return observes(gang) and "hung" in ranks


def _works(agent: SimAgent, *, observed: bool) -> bool:
    states = set(agent.ranks.values())
    if observed and "hung" in states:
        return states <= {"run", "hung"}
    return agent.phase in (AgentPhase.RUNNING, AgentPhase.COMPLETED) and states <= {"run", "done"}


class Ends(Checker):
    """Liveness."""

    name = "incident_ends"
    promise = "once the faults are over, every job trains again or has ended and its agents know"

    def at_rest(self) -> None:
        """See Checker."""
        for job in self.world.jobs:
            if why := unrest(self.world, job):
                self.broken(f"{job}: {why}")


class Told(Checker):
    """The journal."""

    name = "journal"
    promise = "the journal tells each incident once and completely"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._opened: dict[str, str] = {}
        self._closed: set[str] = set()
        self._attempts: dict[str, list[int]] = defaultdict(list)
        self._ended: dict[str, int] = defaultdict(int)
        self._ends: dict[str, int] = defaultdict(int)
        self._withheld: set[str] = set()

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if isinstance(event, GangWritten) and event.gang.phase is Phase.ENDED:
            self._ends[event.gang.job_id] += event.before is None or event.before.phase is not Phase.ENDED
        if not isinstance(event, MessageStored):
            return
        match event.envelope.data:
            case IncidentOpened() as opened:
                if opened.incident_id in self._opened:
                    self.broken(f"incident {opened.incident_id[:8]} of {opened.job_id} is opened twice")
                self._opened[opened.incident_id] = opened.job_id
            case RecoveryPlanned() as planned:
                self._attempts[planned.incident_id].append(planned.attempt)
            case IncidentClosed() as closed:
                if closed.incident_id in self._closed:
                    self.broken(f"incident {closed.incident_id[:8]} of {closed.job_id} is closed twice")
                self._closed.add(closed.incident_id)
            case ActionWithheld() as withheld:
                self._withheld.add(withheld.job_id)
            case JobEnded() as ended:
                self._ended[ended.job_id] += 1

    def at_rest(self) -> None:
        """See Checker."""
        for incident_id in sorted(self._opened.keys() ^ self._closed):
            what = "closed and never opened" if incident_id in self._closed else "opened and never closed"
            self.broken(f"incident {incident_id[:8]} is {what}")
        for incident_id, attempts in self._attempts.items():
            if len(set(attempts)) != len(attempts) or incident_id not in self._opened:
                self.broken(f"incident {incident_id[:8]} has the plans {attempts}")
        for job, gang in self.world.gangs.gangs.items():
            if hangs_observed(self.world, gang) and job not in self._withheld:
                self.broken(f"{job} observes, a rank hangs, and it is not told that nothing is done")
            if self._ended[job] != self._ends[job]:
                self.broken(f"{job} ended {self._ends[job]} times, and that was told {self._ended[job]} times")


class NothingLost(Checker):
    """What a stream took is taken note of."""

    name = "nothing_lost"
    promise = "nothing that was acknowledged is lost: no dead letter, no forgotten checkpoint"

    def at_rest(self) -> None:
        """See Checker."""
        for letter in self.world.broker.stored(Stream.DLQ):
            told = letter.envelope.data
            self.broken(f"dead letter of {told.consumer}: {told.subject}: {told.error}: {told.message}"[:300])
        kept = {job: decode_history(e.value) for job, e in self.world.checkpoints.entries().items()}
        newest: dict[str, dict[tuple[int, int], set[int]]] = defaultdict(lambda: defaultdict(set))
        for record in self.world.broker.streams[Stream.AGENTS]:
            if "checkpoint_reported" in record.subject:
                said: CheckpointReported = open_envelope(record.body).data
                newest[said.job_id][said.topology_version, said.step].add(said.rank)
        for job, steps in newest.items():
            gang = self.world.gangs.gangs.get(job)
            if gang is None or gang.phase is Phase.ENDED:
                continue  # nobody will ever ask
            (version, step), ranks = max(steps.items())
            kind = kept[job].kinds["model"] if job in kept else None
            found = [c for c in kind.confirmations if (c.topology_version, c.step) == (version, step)] if kind else []
            if not found or not all(covers(found[0].ranks, ((rank, rank),)) for rank in ranks):
                self.broken(f"{job} {version}: step {step} was confirmed by {sorted(ranks)}, and is not kept")


class Upright(Checker):
    """Nothing that peers or the network do ends a service."""

    name = "service"
    promise = "no service ends by itself"

    def at_rest(self) -> None:
        """See Checker."""
        for service in self.world.services:
            for defect in service.defects:
                self.broken(defect)
            if not service.is_up:
                self.broken(f"{service.name} is not there")
        for planner in self.world.planners:
            if why := planner.failed():
                self.broken(f"{planner.name}: {why}")


ALL: tuple[type[Checker], ...] = (
    OneStart,
    OneTopology,
    Confirmed,
    Fenced,
    OneLeader,
    RecordFirst,
    Budgets,
    Innocent,
    Listed,
    Sound,
    SteppedOver,
    Sized,
    Harmless,
    Limited,
    OutOfUse,
    NodeStories,
    Ends,
    Told,
    Counted,
    NothingLost,
    Upright,
)

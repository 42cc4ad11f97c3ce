"""Promises about what a new generation is: from which checkpoint it starts, and how many nodes it has."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from sim_checkers import Checker
from sim_events import GangWritten, MessageStored, RanksStarted, Saved, SimEvent

from fault_contracts.policy import ElasticPolicy, PolicyMode
from fault_contracts.recovery import RecoveryPlanned
from recovery_planner.domain.gang import Gang, Phase

if TYPE_CHECKING:
    from sim_world import World


class SteppedOver(Checker):
    """What was taken for poisoned is loaded again only when it was written anew by all ranks."""

    name = "stepped_over"
    promise = "no start from a checkpoint that was stepped over, and not more of them than the job allows"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._over: dict[str, dict[int, int]] = defaultdict(dict)
        self._saved: dict[tuple[str, int], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._size: dict[tuple[str, int], int] = {}

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        match event:
            case Saved():
                self._saved[event.job, event.step][event.version].add(event.rank)
            case RanksStarted():
                self._size[event.job, event.version] = self.world.agents[event.node_id].table.world_size
                # What lies behind the bad step was made from it, so it is not to be loaded either.
                for step, since in self._over[event.job].items():
                    if event.version >= since and event.step >= step and not self._is_new(event, since):
                        self.broken(f"{event.job} {event.version} starts from {event.step}; {step} was stepped over")
            case MessageStored():
                planned = event.envelope.data
                if isinstance(planned, RecoveryPlanned) and planned.checkpoint_stepped_over is not None:
                    self._note(planned.job_id, planned.checkpoint_stepped_over, planned.topology_version)

    def _note(self, job: str, step: int, version: int) -> None:
        self._over[job][step] = version
        policy = self.world.specs[job].policy
        allowed = 0 if policy is None else policy.checkpoint.step_back_max
        if len(self._over[job]) > allowed:
            self.broken(f"{job}: steps {sorted(self._over[job])} were stepped over, {allowed} may be")

    def _is_new(self, start: RanksStarted, since: int) -> bool:
        by_version = self._saved[start.job, start.step]
        return any(
            since <= version < start.version and len(ranks) >= self._size[start.job, version]
            for version, ranks in by_version.items()
        )


def sizes_of(gang: Gang) -> set[int]:
    """All sizes that the job's own words allow."""
    spec = gang.spec
    elastic = rules_of(gang)
    if elastic is None:
        return {spec.nnodes}
    smaller = range(elastic.nnodes_min, spec.nnodes)
    if elastic.nnodes_allowed:
        return {spec.nnodes, *(n for n in smaller if n in elastic.nnodes_allowed)}
    return {spec.nnodes, *(n for n in smaller if n % elastic.replica_nodes == 0)}


def rules_of(gang: Gang) -> ElasticPolicy | None:
    """A job that only observes has one size."""
    policy = gang.spec.policy
    return None if policy is None or policy.mode is PolicyMode.OBSERVE else policy.elastic


def could_grow(gang: Gang) -> str:
    """Why a gang that runs is smaller than it has to be; empty: it is as large as its nodes allow."""
    elastic = rules_of(gang)
    if gang.phase is not Phase.RUNNING or elastic is None or not elastic.regrow or gang.completed:
        return ""
    has = gang.table.nnodes
    free = [m for m in gang.members.values() if m.node_id not in gang.nodes and gang.is_present(m.node_id)]
    fit = [m for m in free if not m.doubt and not m.held]
    unit = 1 if elastic.nnodes_allowed else elastic.replica_nodes
    for size in sizes_of(gang):
        if has < size <= has + len(fit) and (size - has) % unit == 0:
            return f"it has {has} nodes, {[m.node_id for m in fit]} are free, and it does not grow to {size}"
    return ""


class Sized(Checker):
    """A gang shrinks and grows by its policy alone."""

    name = "size"
    promise = "a gang has the size that was asked for, or one that its policy allows"

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if not isinstance(event, GangWritten) or not event.gang.table.rows:
            return
        gang = event.gang
        if event.before is not None and event.before.table == gang.table:
            return
        if gang.table.nnodes not in sizes_of(gang) or gang.table.nnodes != len(gang.nodes):
            self.broken(
                f"{gang.job_id}: {gang.table.nnodes} nodes ({gang.nodes}); {sorted(sizes_of(gang))} are allowed"
            )

"""What is known of one job from its events: who holds which ranks, how far they are, and each incident so far. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from fault_contracts.agent import (
    AgentReported,
    CheckpointReported,
    StepReported,
    WorkerExited,
    WorkersStarted,
)
from fault_contracts.faults import FaultClassified
from fault_contracts.hardware import HardwareChange, HardwareChanged, NodeStanding, NodeStandingChanged
from fault_contracts.inventory import InventoryReported
from fault_contracts.payload import Payload
from fault_contracts.recovery import (
    GangFormed,
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    NodeLost,
    RecoveryPlanned,
    TrainingResumed,
)
from fault_contracts.remediation import NodeTended


@dataclass(slots=True, kw_only=True)
class IncidentStory:
    """One incident, as far as it has come."""

    opened: IncidentOpened
    plans: list[RecoveryPlanned] = field(default_factory=list)
    resumed: TrainingResumed | None = None
    closed: IncidentClosed | None = None


@dataclass(slots=True, kw_only=True)
class NodeStory:
    """One agent and its ranks in the newest generation it started."""

    agent_pid: int = 0
    phase: str = "?"
    pids: tuple[int, ...] = ()
    pids_version: int = 0
    step: int | None = None
    step_version: int = 0


class JobStory:
    """A fold over the events of one job. Events of several streams may come in another order than they happened."""

    def __init__(self, job_id: str, *, ranks_per_node: int) -> None:
        self.job_id = job_id
        self.ranks_per_node = ranks_per_node
        self.nodes: dict[str, NodeStory] = {}
        self.rank_table: list[str] = []
        """node_id by node_rank."""
        self.spares: list[str] = []
        self.topology_version = 0
        self.base_step = 0
        """The step that the newest generation started from."""
        self.incidents: list[IncidentStory] = []
        self.ended: JobEnded | None = None
        self.verdicts: list[FaultClassified] = []
        self.exits: list[WorkerExited] = []
        self.lost: set[str] = set()
        """Nodes whose agent was found gone."""
        self.watched: set[str] = set()
        """Nodes whose host role has told what is in them."""
        self.struck: dict[str, str] = {}
        """Node by the uuid of a GPU that the ledger holds something against."""
        self.quarantined: set[str] = set()
        """Devices by uuid that the ledger lists: no work is given to them until a person releases them."""
        self.tended: list[NodeTended] = []
        """What was done about nodes, in order."""
        self.standings: dict[str, NodeStanding] = {}
        self._confirmed: dict[int, set[int]] = {}

    @property
    def world_size(self) -> int:
        """Ranks of the whole gang."""
        return len(self.rank_table) * self.ranks_per_node

    @property
    def checkpoint(self) -> int | None:
        """The newest step that every rank of this generation confirmed."""
        whole = [step for step, ranks in self._confirmed.items() if self.rank_table and len(ranks) >= self.world_size]
        return max(whole, default=None)

    @property
    def step(self) -> int | None:
        """The step that every node of this generation has finished; None before the first."""
        steps = [self._node(node_id) for node_id in self.rank_table]
        known = [node.step for node in steps if node.step is not None and node.step_version == self.topology_version]
        return min(known) if known and len(known) == len(steps) else None

    @property
    def open_incident(self) -> IncidentStory | None:
        """The incident that is not closed yet."""
        return self.incidents[-1] if self.incidents and self.incidents[-1].closed is None else None

    @property
    def training(self) -> bool:
        """Every node trains in the newest generation, and nothing is being recovered."""
        return bool(self.rank_table) and self.step is not None and self.open_incident is None and self.ended is None

    def holder(self, rank: int) -> tuple[str, int]:
        """Node and local rank of a rank."""
        return self.rank_table[rank // self.ranks_per_node], rank % self.ranks_per_node

    def pid_of(self, rank: int) -> int | None:
        """The process of a rank in the newest generation; None when it is not known to run."""
        node_id, local_rank = self.holder(rank)
        node = self._node(node_id)
        if node.pids_version != self.topology_version or local_rank >= len(node.pids):
            return None
        return node.pids[local_rank]

    def verdict_of(self, incident: IncidentStory) -> FaultClassified | None:
        """The newest verdict on an incident: on the version it opened at, or on one that its attempts made.

        Looked up at the end rather than attached on arrival, because a verdict may arrive before its incident.
        """
        start = incident.opened.topology_version
        later = [other.opened.topology_version for other in self.incidents]
        end = min((version for version in later if version > start), default=None)
        fitting = [
            v for v in self.verdicts if v.topology_version >= start and (end is None or v.topology_version < end)
        ]
        return fitting[-1] if fitting else None

    def apply(self, event: Payload) -> None:
        """Take in one event of this job."""
        match event:
            case AgentReported():
                node = self._node(event.node_id)
                node.agent_pid, node.phase = event.pid, event.phase.value
            case GangFormed():
                self.rank_table, self.spares = list(event.nodes), list(event.spares)
                self._advance(event.topology_version, base_step=0)
            case WorkersStarted():
                node = self._node(event.node_id)
                if event.topology_version >= node.pids_version:
                    node.pids, node.pids_version = event.pids, event.topology_version
            case StepReported():
                self._apply_step(event)
            case CheckpointReported():
                if event.topology_version >= self.topology_version:
                    self._confirmed.setdefault(event.step, set()).add(event.rank)
            case WorkerExited():
                self.exits.append(event)
            case NodeLost():
                self.lost.add(event.node_id)
            case IncidentOpened():
                self.incidents.append(IncidentStory(opened=event))
            case FaultClassified():
                self.verdicts.append(event)
            case RecoveryPlanned() | TrainingResumed() | IncidentClosed():
                self._apply_incident(event)
            case JobEnded():
                self.ended = event
            case InventoryReported():
                self.watched.add(event.node_id)
            case HardwareChanged():
                if event.change in (HardwareChange.STRUCK, HardwareChange.QUARANTINED):
                    self.struck[event.device_id] = event.node_id
                if event.change is HardwareChange.QUARANTINED:
                    self.quarantined.add(event.device_id)
            case NodeTended():
                self.tended.append(event)
            case NodeStandingChanged():
                self.standings[event.node_id] = event.standing
            case _:
                pass  # shown as a line, changes nothing here

    def _apply_step(self, event: StepReported) -> None:
        node = self._node(event.node_id)
        if event.topology_version > node.step_version:
            node.step_version, node.step = event.topology_version, event.step
        elif event.topology_version == node.step_version:
            node.step = max(node.step or 0, event.step)

    def _apply_incident(self, event: RecoveryPlanned | TrainingResumed | IncidentClosed) -> None:
        story = next((i for i in self.incidents if i.opened.incident_id == event.incident_id), None)
        if story is None:
            return  # opened before we watched
        match event:
            case RecoveryPlanned():
                story.plans.append(event)
                if event.level != "failed":
                    if event.nnodes:  # a gang that shrinks loses its last places, one that grows gets new ones
                        self.rank_table = (self.rank_table + [""] * event.nnodes)[: event.nnodes]
                    for row in event.moves:
                        self.rank_table[row.node_rank] = row.node_id
                        self.spares = [spare for spare in self.spares if spare != row.node_id]
                    self._advance(event.topology_version, base_step=event.checkpoint_step or 0)
            case TrainingResumed():
                story.resumed = event
            case IncidentClosed():
                story.closed = event

    def _advance(self, topology_version: int, *, base_step: int) -> None:
        if topology_version > self.topology_version:
            self.topology_version, self.base_step = topology_version, base_step
            self._confirmed.clear()

    def _node(self, node_id: str) -> NodeStory:
        return self.nodes.setdefault(node_id, NodeStory())

"""What is known about a job: bounded, and in an order that does not depend on arrival or on wall clocks.

Evidence is kept per generation (topology_version). Within one node the agent's `ordinal` says who died first; between
nodes no order is known, and none is made up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from fault_classifier.domain.log_row import ROWS_MAX, LogRow
from fault_contracts.agent import ExitStatus, RestartAsked
from fault_contracts.faults import Action, Attribution, FaultClassified

EXITS_MAX = 32
"""Deaths kept per generation. One decides and a few explain; ten thousand victims of it are a number."""
NOTES_MAX = 16
FAULTED_MAX = 32
"""Faults of living ranks kept per generation: one a node and check, of as many nodes as have their deaths kept."""
DEVICES_MAX = 32
"""Device faults kept per generation: a rack's worth; each costs its node anyway, whether it is listed or not."""
SURROUNDINGS_MAX = 48
"""Conditions and counts around a generation: a few for each of the nodes that matter."""
NODES_MAX = 1_024
"""Nodes of a job that are remembered, to know whose conditions concern it."""
GENERATIONS_MAX = 32
"""Generations kept per job. A gang that was restarted more often has a budget that ends it."""
MESSAGE_MAX = 600
TAIL_LINES_MAX = 6
TAIL_LINE_MAX = 240
FRAMES_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The exception that ended a rank."""

    type: str
    message: str
    fingerprint: str
    frames: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The class without its module: torch.distributed.DistStoreError is DistStoreError."""
        return self.type.rpartition(".")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """One rank that ended without being told to.

    Attributes:
        evidence_id: the condition's id.
        ordinal: order of death on this node, from 0.
        step: the last step the rank finished; None is unknown.
        checkpoint_step: the step this generation was started from; None without a checkpoint.
        asked: the level of restart that the script asked for; then `error` is its wish, not an exception.
    """

    evidence_id: str
    node_id: str
    status: ExitStatus
    ordinal: int
    error: Raised | None = None
    step: int | None = None
    checkpoint_step: int | None = None
    ran_s: float = 0.0
    stderr_tail: tuple[str, ...] = ()
    asked: RestartAsked | None = None

    @property
    def rank(self) -> int:
        """Global rank."""
        return self.status.rank


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNode:
    """A node whose agent no longer answers."""

    evidence_id: str
    node_id: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulted:
    """Ranks of a node that live and cannot go on.

    Attributes:
        check: a member of fault_contracts.health.RankCheck; one that this version does not know is read by no rule.
        rule_id: which rule of the agent decided.
        ranks: the suspects; empty when nobody stands out.
        step, checkpoint_step: as in Exit.
    """

    evidence_id: str
    node_id: str
    check: str
    rule_id: str
    sentence: str
    ranks: tuple[int, ...] = ()
    pid: int | None = None
    step: int | None = None
    checkpoint_step: int | None = None
    place: str = ""
    """Of the first suspect's stack, as the agent names it (rank_faults.StalledRank.place); empty is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFault:
    """A device of a node that failed while the job was there.

    Attributes:
        evidence_id: the condition's id.
        component_id: name of the device where it is no GPU.
        rule_id: the policy's row that weighed it.
        origin: whose fault it is taken to be; never the user's here.
        action: what the driver wants, else what the policy says.
        driver_action: the driver's own words; empty when it said nothing.
    """

    evidence_id: str
    node_id: str
    check: str
    component: str
    sentence: str
    rule_id: str
    origin: Attribution
    action: Action
    component_id: str = ""
    gpu_uuid: str = ""
    board_serial: str = ""
    xid: int | None = None
    sxid: int | None = None
    driver_action: str = ""
    process: str = ""

    @property
    def named(self) -> str:
        """The device, for people."""
        name = self.gpu_uuid or self.component_id
        return f"{self.component} {name}" if name else self.component


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A failure condition of the job that is the user's own, or that no rule of this version reads.

    Attributes:
        xid: code of the NVIDIA driver, where it is one.
        device: PCI address or uuid of the GPU that told it; it is not to blame.
    """

    evidence_id: str
    node_id: str
    check: str
    sentence: str
    xid: int | None = None
    device: str = ""


Piece = Exit | LostNode | Faulted | DeviceFault | Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrounding:
    """Something around the job when it broke: a condition of one of its nodes, or what befell other jobs at the time.

    Attributes:
        kind: the condition's check, or what was counted.
        rule_id: who weighed it.
    """

    evidence_id: str
    kind: str
    node_id: str
    sentence: str
    device: str = ""
    captures: dict[str, str] = field(default_factory=dict)
    rule_id: str = ""
    count: int = 1
    xid: int | None = None
    sxid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What is known about one topology_version of a job.

    Attributes:
        exits_dropped: deaths beyond EXITS_MAX, counted only.
        rows: what signatures found in the output of its ranks.
        rows_dropped: findings that agents or this record had no room for.
        surroundings: what was the matter around it.
        deadline_at: when a verdict must be given with what is there; None before the first sign of a fault.
        quiet_at: when nothing new will have come for long enough; None while nothing is open.
        overdue: the deadline has passed.
        verdict: the newest one.
        judged: kinds of the findings that it was given on; more of the same are counted and change no verdict at once.
        revisions: how often the verdict was changed.
        closed: the incident is over, nobody waits for a verdict.
        compacted: texts were dropped.
    """

    topology_version: int
    exits: tuple[Exit, ...] = ()
    exits_dropped: int = 0
    lost: tuple[LostNode, ...] = ()
    faulted: tuple[Faulted, ...] = ()
    devices: tuple[DeviceFault, ...] = ()
    notes: tuple[Note, ...] = ()
    rows: tuple[LogRow, ...] = ()
    rows_dropped: int = 0
    surroundings: tuple[Surrounding, ...] = ()
    incident_id: str = ""
    deadline_at: datetime | None = None
    quiet_at: datetime | None = None
    overdue: bool = False
    verdict: FaultClassified | None = None
    judged: tuple[str, ...] = ()
    revisions: int = 0
    closed: bool = False
    compacted: bool = False

    def __post_init__(self) -> None:
        assert len(self.exits) <= EXITS_MAX, "too many exits"
        assert len(self.notes) <= NOTES_MAX, "too many notes"
        assert len(self.faulted) <= FAULTED_MAX, "too many faults of living ranks"
        assert len(self.devices) <= DEVICES_MAX, "too many device faults"
        assert len(self.rows) <= ROWS_MAX, "too many findings in logs"
        assert len(self.surroundings) <= SURROUNDINGS_MAX, "too many surroundings"

    @property
    def is_broken(self) -> bool:
        """Whether there is a sign of a fault: lines alone are none, a script may have caught what they tell."""
        return bool(
            self.exits or self.exits_dropped or self.lost or self.faulted or self.devices or self.notes
            or self.incident_id
        )  # fmt: skip

    def knows(self, evidence_id: str) -> bool:
        """Whether this piece of evidence was taken in before."""
        pieces: tuple[Piece, ...] = (*self.exits, *self.lost, *self.faulted, *self.devices, *self.notes)
        return any(piece.evidence_id == evidence_id for piece in pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvidence:
    """What is known about a job: its generations, oldest first, its nodes, and when it was last touched."""

    job_id: str
    generations: tuple[Generation, ...] = ()
    nodes: tuple[str, ...] = ()
    touched_at: datetime | None = None
    ended: bool = False

    def __post_init__(self) -> None:
        versions = [generation.topology_version for generation in self.generations]
        assert versions == sorted(set(versions)), "generations out of order"
        assert len(versions) <= GENERATIONS_MAX, "too many generations"

    def generation(self, topology_version: int) -> Generation:
        """The one of a version; empty when nothing is known about it."""
        for generation in self.generations:
            if generation.topology_version == topology_version:
                return generation
        return Generation(topology_version=topology_version)

    def before(self, topology_version: int) -> tuple[Generation, ...]:
        """All older ones, oldest first."""
        return tuple(each for each in self.generations if each.topology_version < topology_version)

    def having(self, changed: Generation, *, touched_at: datetime | None = None) -> JobEvidence:
        """With one generation put in its place, and the oldest dropped when there are too many."""
        older = [each for each in self.generations if each.topology_version < changed.topology_version]
        newer = [each for each in self.generations if each.topology_version > changed.topology_version]
        generations = (*older, changed, *newer)[-GENERATIONS_MAX:]
        return replace(self, generations=generations, touched_at=touched_at or self.touched_at)


def nodes_of(generation: Generation) -> tuple[str, ...]:
    """The nodes that its evidence speaks of."""
    pieces: tuple[Piece | LogRow, ...] = (
        *generation.exits, *generation.lost, *generation.faulted, *generation.devices, *generation.notes,
        *generation.rows,
    )  # fmt: skip
    return tuple(sorted({piece.node_id for piece in pieces}))[:NODES_MAX]

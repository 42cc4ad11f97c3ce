"""Words for stories about a job: deaths, lost nodes, incidents, and the judge who hears them in turn."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from fault_attribution.loading.rule_files import load_rules
from fault_classifier.domain.classify import JudgePolicy, step
from fault_classifier.domain.event import Event, IncidentSeen, PieceSeen, TimePassed
from fault_classifier.domain.evidence import Exit, Faulted, JobEvidence, LostNode, Note, Raised
from fault_contracts.agent import ExitStatus, OomKill, RestartAsked
from fault_contracts.faults import FaultClassified

GLOO_CLOSED = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:59016. This is typically caused by a remote worker crashing. Check the logs of the remote worker"
)
"""As torch 2.13 on gloo raises it when a peer is killed."""
GLOO_RESET = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:9105: Connection "
    "reset by peer. This is typically caused by a remote worker hanging or bugs in the application."
)
START = datetime(2030, 1, 1, tzinfo=UTC)
BOOK = load_rules().causes


def raised(type_: str = "ValueError", message: str = "bad label", *, fingerprint: str = "", frames=()) -> Raised:
    return Raised(type=type_, message=message, fingerprint=fingerprint or f"{type_}-here", frames=tuple(frames))


def lost_peer(message: str = GLOO_CLOSED) -> Raised:
    return raised("RuntimeError", message, fingerprint="gloo")


def died(
    rank: int,
    *,
    signal: int | None = None,
    code: int | None = None,
    error: Raised | None = None,
    oom: OomKill = OomKill.NO,
    node: str = "",
    ordinal: int = 0,
    step: int | None = None,
    checkpoint: int | None = None,
    ran_s: float = 300.0,
    tail: tuple[str, ...] = (),
    lost_status: bool = False,
    tag: str = "",
) -> Exit:
    """A rank that ended; two ranks a node. The exit code is 1 where nothing else is said."""
    if code is None and signal is None and not lost_status:
        code = 1
    return Exit(
        evidence_id=f"death-of-{rank}{tag}",
        node_id=node or f"node-{rank // 2}",
        status=ExitStatus(
            rank=rank, local_rank=rank % 2, pid=1_000 + rank, exit_code=code, signal=signal, oom_kill=oom
        ),
        ordinal=ordinal,
        error=error,
        step=step,
        checkpoint_step=checkpoint,
        ran_s=ran_s,
        stderr_tail=tail,
    )


def asked(rank: int, *, step: int, level: RestartAsked = RestartAsked.PROCESS, tag: str = "") -> Exit:
    """A rank whose script asks for a restart; its process lives."""
    wish = raised("RestartRequested", "the allocator is fragmented")
    return replace(died(rank, error=wish, step=step, lost_status=True, tag=tag), asked=level)


def lost(node: str) -> LostNode:
    return LostNode(evidence_id=f"loss-of-{node}", node_id=node, sentence="no responders for 1.5 s")


def faulted(
    check: str,
    *ranks: int,
    rule: str = "hang_outside",
    step: int | None = None,
    checkpoint: int | None = None,
    tag: str = "",
) -> Faulted:
    """Ranks of the first suspect's node that live and cannot go on."""
    return Faulted(
        evidence_id=f"{check}-{ranks}{tag}",
        node_id=f"node-{ranks[0] // 2 if ranks else 0}",
        check=check,
        rule_id=rule,
        sentence="they stand still",
        ranks=ranks,
        pid=1_000 + ranks[0] if ranks else None,
        step=step,
        checkpoint_step=checkpoint,
    )


@dataclass
class Judge:
    """Hears events and keeps the verdicts."""

    policy: JudgePolicy = field(default_factory=JudgePolicy)
    job: JobEvidence = field(default_factory=lambda: JobEvidence(job_id="job"))
    now: datetime = START
    verdicts: list[FaultClassified] = field(default_factory=list)
    rule_id: str = ""

    def hear(self, event: Event) -> list[FaultClassified]:
        """The verdicts that this event brought."""
        result = step(self.job, event, now=self.now, policy=self.policy, book=BOOK)
        self.job = result.job
        self.rule_id = result.reason.rule_id
        self.verdicts += result.effects
        return list(result.effects)

    def see(self, piece: Exit | LostNode | Faulted | Note, version: int = 1) -> list[FaultClassified]:
        return self.hear(PieceSeen(topology_version=version, piece=piece))

    def incident(self, version: int = 1) -> list[FaultClassified]:
        return self.hear(IncidentSeen(topology_version=version, incident_id=f"incident-{version}"))

    def wait(self, duration_s: float) -> list[FaultClassified]:
        self.now += timedelta(seconds=duration_s)
        return self.hear(TimePassed())


def verdict_on(*pieces: Exit | LostNode | Faulted | Note) -> FaultClassified:
    """The verdict on this evidence alone, after the wait if it takes one."""
    judge = Judge()
    for piece in pieces:
        judge.see(piece)
    judge.wait(2.0)
    return judge.verdicts[-1]

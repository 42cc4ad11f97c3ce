"""The judge: evidence of a job + one event → evidence, and the verdict when one is due.

A verdict is given the moment there is a sign of a fault. It is final at once where waiting would cost more than a
wrong word (a restart, which later evidence corrects) and where a device itself speaks; what would end the job or give
up a node is provisional until evidence is quiet. Where only victims speak, a cause is waited for until the deadline.
Later evidence that says otherwise revises the verdict, a few times at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fault_attribution.cause_rule import CauseBook
from fault_attribution.derive import complete
from fault_attribution.judge import judge
from fault_classifier.domain.event import (
    Event,
    GangBegun,
    IncidentOver,
    IncidentSeen,
    JobOver,
    LinesSeen,
    PieceSeen,
    SurroundingsSeen,
    TimePassed,
)
from fault_classifier.domain.evidence import NODES_MAX, Generation, JobEvidence
from fault_classifier.domain.fact_policy import FactPolicy
from fault_classifier.domain.facts import Facts, facts_of
from fault_classifier.domain.intake import add, add_log_rows, add_surroundings, compact
from fault_classifier.domain.novelty import is_news, kinds_of
from fault_classifier.domain.verdict import Said, blamed_device, contradicts, write_verdict
from fault_contracts.faults import Action, Attribution, FaultClassified
from fault_contracts.payload import Reason

REVISIONS_MAX = 4
"""A verdict that changes more often than this helps nobody; the rest is kept as evidence."""
WHOLE_GENERATIONS = 2
"""Late evidence is about the newest generation or the one before."""
DECISIVE_CONFIDENCE = 0.9
_CHEAP = frozenset({Action.RESTART_PROCESS, Action.RESTART_JOB, Action.WAIT_OR_IGNORE})
"""What later evidence can correct: nobody's job is ended and no node is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePolicy:
    """Limits of the judge.

    Attributes:
        verdict_wait_s: how long victims wait for a cause, and a provisional verdict for its final one. Below the
            planner's own deadline of 2 s after the stop.
        quiet_s: without news for so long, a provisional verdict becomes final.
        facts: what the making of facts reads.
    """

    verdict_wait_s: float = 1.8
    quiet_s: float = 0.3
    facts: FactPolicy = field(default_factory=FactPolicy)

    def __post_init__(self) -> None:
        """Refuse values that would make the planner wait for nothing.

        Raises:
            ValueError: with the name of the value.
        """
        if not 0 <= self.verdict_wait_s <= 60:
            raise ValueError(f"verdict_wait_s is {self.verdict_wait_s}; it must be 0 to 60")
        if not 0 <= self.quiet_s <= 60:
            raise ValueError(f"quiet_s is {self.quiet_s}; it must be 0 to 60")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Result of one event: new evidence, the verdict to publish if any, and why."""

    job: JobEvidence
    effects: tuple[FaultClassified, ...]
    reason: Reason


def step(job: JobEvidence, event: Event, *, now: datetime, policy: JudgePolicy, book: CauseBook) -> Step:
    """Take one event in. One that changes nothing returns the same evidence."""
    match event:
        case PieceSeen() | LinesSeen() | SurroundingsSeen():
            return _grow(job, event, now, policy, book)
        case IncidentSeen(topology_version=version, incident_id=incident_id):
            old = job.generation(version)
            if old.incident_id == incident_id:
                return _same(job, "known", f"incident {incident_id} was taken in before")
            known = replace(old, incident_id=incident_id)
            if old.verdict is not None:
                return _same(_kept(job, known, now), "incident", f"incident {incident_id} has its verdict already")
            return _judge(job, _waiting(known, now, policy), now, policy, book)
        case IncidentOver(topology_version=version):
            return _close(job, version, now)
        case JobOver():
            if job.ended or not job.generations:
                return _same(job, "ended", "nothing is kept about this job, or it had ended before")
            ended = replace(job, ended=True, touched_at=now, generations=tuple(map(_quiet, job.generations)))
            return _same(ended, "ended", "the job has ended")
        case GangBegun(nodes=nodes):
            nodes = nodes[:NODES_MAX] or job.nodes
            if not job.ended:
                begun = job if nodes == job.nodes else replace(job, nodes=nodes, touched_at=now)
                return _same(begun, "gang_begun", "the job goes on")
            fresh = JobEvidence(job_id=job.job_id, nodes=nodes, touched_at=now)
            return _same(fresh, "new_run", "a new run begins under the name of one that ended: its past does not count")
        case TimePassed():
            return _expire(job, now, policy, book)


def next_deadline(job: JobEvidence) -> datetime | None:
    """When time alone changes something."""
    due = [at for each in job.generations if (at := _due_at(each)) is not None]
    return min(due, default=None)


def _grow(
    job: JobEvidence,
    event: PieceSeen | LinesSeen | SurroundingsSeen,
    now: datetime,
    policy: JudgePolicy,
    book: CauseBook,
) -> Step:
    old = job.generation(event.topology_version)
    match event:
        case PieceSeen(piece=piece):
            grown = add(old, piece)
        case LinesSeen(rows=rows, dropped=dropped):
            grown = add_log_rows(old, rows, dropped)
        case SurroundingsSeen() if old.closed:
            # The gang runs again: what befalls its nodes from now on did not break it then.
            return _same(job, "closed", "the incident is over; what is around the job now did not cause it")
        case SurroundingsSeen(surroundings=surroundings):
            grown = add_surroundings(old, surroundings)
    if grown == old:
        return _same(job, "known", "this evidence was taken in before, or there is too much")
    if not grown.is_broken:
        return _same(_kept(job, grown, now), "noted", "lines and surroundings are kept until something fails")
    if old.verdict is not None and not is_news(old, grown):
        # More of the same: judged once more when it has become quiet, not each time.
        return _same(_kept(job, _waiting(grown, now, policy), now), "counted", "more of what the verdict rests on")
    return _judge(job, _waiting(grown, now, policy), now, policy, book)


def _judge(job: JobEvidence, generation: Generation, now: datetime, policy: JudgePolicy, book: CauseBook) -> Step:
    facts = facts_of(generation, job.having(generation), policy.facts)
    if not generation.exits and not facts.stands and not generation.overdue:
        return _same(_kept(job, generation, now), "waiting", "an incident without evidence: waiting until the deadline")
    known = complete(facts.findings)
    facts = Facts(by_id={each.finding_id: each for each in known}, stands=facts.stands, victims=facts.victims)
    judgement = judge(known, book)
    before = generation.verdict
    said = Said.of(judgement, facts, generation, job)
    provisional = not _is_final(generation, said, stands=facts.stands, now=now)
    quiet_at = generation.quiet_at if provisional else None
    generation = replace(generation, judged=kinds_of(generation), quiet_at=quiet_at)
    if before is not None and not contradicts(before, said) and before.provisional == provisional:
        return _same(_kept(job, generation, now), "confirmed", f"verdict {before.cause} stands: {said.sentence}")
    if before is not None and not before.provisional and provisional:
        # A word that was final is taken back only for good: what says otherwise must have become quiet.
        return _same(_kept(job, generation, now), "doubted", f"evidence against {before.cause}: waiting for more of it")
    revises = before is not None and contradicts(before, said)
    was_final = before is not None and not before.provisional
    if revises and was_final and generation.revisions >= REVISIONS_MAX:
        return _same(_kept(job, generation, now), "revised_enough", f"it was revised {REVISIONS_MAX} times; it stands")
    revised = replace(generation, revisions=generation.revisions + 1) if revises else generation
    verdict = write_verdict(said, revised, job.job_id, supersedes=before, provisional=provisional, now=now)
    return Step(job=_kept(job, replace(revised, verdict=verdict), now), effects=(verdict,), reason=verdict.reasons[0])


def _is_final(generation: Generation, said: Said, *, stands: bool, now: datetime) -> bool:
    """Whether the verdict may be acted on whatever it says."""
    if generation.overdue or generation.closed:
        return True
    judgement = said.judgement
    quiet = generation.quiet_at is not None and now >= generation.quiet_at
    if stands:
        return quiet or said.action in _CHEAP or _is_decisive(said, generation)
    # Only victims so far: a cause is known when a line tells it; else the loss of a node may still be told.
    return quiet and judgement.attribution is not Attribution.UNKNOWN


def _is_decisive(said: Said, generation: Generation) -> bool:
    """A device's own word with nothing of weight against it: the driver reported a code, or said what it wants."""
    device = blamed_device(said.judgement, said.facts, generation)
    if device is None or said.judgement.confidence < DECISIVE_CONFIDENCE:
        return False
    return device.xid is not None or device.sxid is not None or bool(device.driver_action)


def _expire(job: JobEvidence, now: datetime, policy: JudgePolicy, book: CauseBook) -> Step:
    effects: list[FaultClassified] = []
    reason = Reason(rule_id="classify.early", sentence="no deadline has passed")
    for generation in job.generations:
        due_at = _due_at(generation)
        if due_at is None or now < due_at:
            continue
        overdue = generation.overdue or (generation.deadline_at is not None and now >= generation.deadline_at)
        late = generation if overdue == generation.overdue else replace(generation, overdue=overdue)
        judged = _judge(job, late, now, policy, book)
        changed = judged.job.generation(generation.topology_version)
        # Nothing is waited for any more, whatever came of it.
        rested = (
            replace(changed, quiet_at=None) if changed.quiet_at is not None and now >= changed.quiet_at else changed
        )
        job = judged.job if rested is changed else judged.job.having(rested)
        reason = judged.reason
        effects += judged.effects
    return Step(job=job, effects=tuple(effects), reason=reason)


def _close(job: JobEvidence, version: int, now: datetime) -> Step:
    closed = tuple(_quiet(each) if each.topology_version < version else each for each in job.generations)
    if closed == job.generations:
        return _same(job, "closed", "nothing waited for a verdict")
    return _same(replace(job, generations=closed, touched_at=now), "closed", "the incident is over")


def _due_at(generation: Generation) -> datetime | None:
    """When this generation is looked at again: at quiet, and at the deadline while no final verdict is out."""
    if generation.closed:
        return None
    open_ = generation.verdict is None or generation.verdict.provisional
    times = [generation.quiet_at]
    if open_ and not generation.overdue:
        times.append(generation.deadline_at)
    return min((at for at in times if at is not None), default=None)


def _quiet(generation: Generation) -> Generation:
    return replace(generation, closed=True, deadline_at=None, quiet_at=None)


def _waiting(generation: Generation, now: datetime, policy: JudgePolicy) -> Generation:
    """With a deadline from the first sign of a fault on, which later signs do not move, and quiet from the last one."""
    if generation.closed:
        return generation
    deadline_at = generation.deadline_at or now + timedelta(seconds=policy.verdict_wait_s)
    quiet_at = now + timedelta(seconds=policy.quiet_s)
    if not generation.overdue:
        quiet_at = min(quiet_at, deadline_at)
    return replace(generation, deadline_at=deadline_at, quiet_at=quiet_at)


def _kept(job: JobEvidence, generation: Generation, now: datetime) -> JobEvidence:
    grown = job.having(generation, touched_at=now)
    if len(grown.generations) <= WHOLE_GENERATIONS:
        return grown
    old = tuple(compact(each) for each in grown.generations[:-WHOLE_GENERATIONS])
    return replace(grown, generations=(*old, *grown.generations[-WHOLE_GENERATIONS:]))


def _same(job: JobEvidence, rule: str, sentence: str) -> Step:
    return Step(job=job, effects=(), reason=Reason(rule_id=f"classify.{rule}", sentence=sentence[:2_048]))

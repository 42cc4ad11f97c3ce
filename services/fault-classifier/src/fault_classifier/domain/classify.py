"""The judge: evidence of a job + one event → evidence, and the verdict when one is due.

A verdict is given the moment evidence that stands for itself is there. Victims, and an incident without evidence, wait
for a cause until the deadline. Later evidence that says otherwise revises the verdict, a few times at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fault_classifier.domain.attribution import attribute
from fault_classifier.domain.event import Event, GangBegun, IncidentOver, IncidentSeen, JobOver, PieceSeen, TimePassed
from fault_classifier.domain.evidence import Generation, JobEvidence
from fault_classifier.domain.intake import add, compact
from fault_classifier.domain.rule import Rule, RulePolicy
from fault_classifier.domain.rulebook import RULEBOOK
from fault_classifier.domain.verdict import contradicts, write_verdict
from fault_contracts.faults import FaultClassified
from fault_contracts.payload import Reason

REVISIONS_MAX = 4
"""A verdict that changes more often than this helps nobody; the rest is kept as evidence."""
WHOLE_GENERATIONS = 2
"""Late evidence is about the newest generation or the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePolicy:
    """Limits of the judge.

    Attributes:
        verdict_wait_s: how long victims wait for a cause. Below the planner's own deadline of 2 s after the stop.
        rule: what the rules read.
    """

    verdict_wait_s: float = 1.8
    rule: RulePolicy = field(default_factory=RulePolicy)

    def __post_init__(self) -> None:
        """Refuse values that would make the planner wait for nothing.

        Raises:
            ValueError: with the name of the value.
        """
        if not 0 <= self.verdict_wait_s <= 60:
            raise ValueError(f"verdict_wait_s is {self.verdict_wait_s}; it must be 0 to 60")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Result of one event: new evidence, the verdict to publish if any, and why."""

    job: JobEvidence
    effects: tuple[FaultClassified, ...]
    reason: Reason


def step(
    job: JobEvidence, event: Event, *, now: datetime, policy: JudgePolicy, rulebook: tuple[Rule, ...] = RULEBOOK
) -> Step:
    """Take one event in. One that changes nothing returns the same evidence."""
    match event:
        case PieceSeen(topology_version=version, piece=piece):
            old = job.generation(version)
            grown = add(old, piece)
            if grown == old:
                return _same(job, "known", f"evidence {piece.evidence_id} was taken in before, or there is too much")
            if grown.exits is old.exits and old.verdict is not None and grown.exits_dropped > old.exits_dropped:
                return _same(_kept(job, grown, now), "counted", "one more death of a generation that is full of them")
            return _judge(job, _waiting(grown, now, policy), now, policy, rulebook)
        case IncidentSeen(topology_version=version, incident_id=incident_id):
            old = job.generation(version)
            if old.incident_id == incident_id:
                return _same(job, "known", f"incident {incident_id} was taken in before")
            known = replace(old, incident_id=incident_id)
            return _judge(job, _waiting(known, now, policy), now, policy, rulebook)
        case IncidentOver(topology_version=version):
            return _close(job, version, now)
        case JobOver():
            if job.ended or not job.generations:
                return _same(job, "ended", "nothing is kept about this job, or it had ended before")
            ended = replace(job, ended=True, touched_at=now, generations=tuple(map(_quiet, job.generations)))
            return _same(ended, "ended", "the job has ended")
        case GangBegun():
            if not job.ended:
                return _same(job, "gang_begun", "the job goes on")
            fresh = JobEvidence(job_id=job.job_id, touched_at=now)
            return _same(fresh, "new_run", "a new run begins under the name of one that ended: its past does not count")
        case TimePassed():
            return _expire(job, now, policy, rulebook)


def next_deadline(job: JobEvidence) -> datetime | None:
    """When time alone changes something."""
    waiting = [each.deadline_at for each in job.generations if _waits(each) and each.deadline_at is not None]
    return min(waiting, default=None)


def _judge(
    job: JobEvidence, generation: Generation, now: datetime, policy: JudgePolicy, rulebook: tuple[Rule, ...]
) -> Step:
    attributed = attribute(generation, job.having(generation), rulebook, policy.rule)
    if attributed is None:
        changed = _kept(job, generation, now)
        return _same(changed, "waiting", "only victims, or nothing, so far: waiting for a cause until the deadline")
    before = generation.verdict
    if before is not None and not contradicts(before, attributed):
        changed = _kept(job, generation, now)
        return _same(changed, "confirmed", f"verdict {before.cause} stands: {attributed.root.match.sentence}")
    if before is not None and generation.revisions >= REVISIONS_MAX:
        changed = _kept(job, generation, now)
        return _same(changed, "revised_enough", f"the verdict was revised {REVISIONS_MAX} times; it stands")
    revised = replace(generation, revisions=generation.revisions + (before is not None))
    verdict = write_verdict(attributed, revised, job.job_id, supersedes=before, now=now)
    changed = _kept(job, replace(revised, verdict=verdict), now)
    return Step(job=changed, effects=(verdict,), reason=verdict.reasons[0])


def _expire(job: JobEvidence, now: datetime, policy: JudgePolicy, rulebook: tuple[Rule, ...]) -> Step:
    effects: list[FaultClassified] = []
    reason = Reason(rule_id="classify.early", sentence="no deadline has passed")
    for generation in job.generations:
        if not _waits(generation) or generation.deadline_at is None or now < generation.deadline_at:
            continue
        judged = _judge(job, replace(generation, overdue=True), now, policy, rulebook)
        job, reason = judged.job, judged.reason
        effects += judged.effects
    return Step(job=job, effects=tuple(effects), reason=reason)


def _close(job: JobEvidence, version: int, now: datetime) -> Step:
    closed = tuple(_quiet(each) if each.topology_version < version else each for each in job.generations)
    if closed == job.generations:
        return _same(job, "closed", "nothing waited for a verdict")
    return _same(replace(job, generations=closed, touched_at=now), "closed", "the incident is over")


def _waits(generation: Generation) -> bool:
    return generation.verdict is None and not generation.closed and not generation.overdue


def _quiet(generation: Generation) -> Generation:
    return replace(generation, closed=True, deadline_at=None)


def _waiting(generation: Generation, now: datetime, policy: JudgePolicy) -> Generation:
    """With a deadline from the first sign of a fault on; later signs do not move it."""
    if generation.deadline_at is not None or generation.closed:
        return generation
    return replace(generation, deadline_at=now + timedelta(seconds=policy.verdict_wait_s))


def _kept(job: JobEvidence, generation: Generation, now: datetime) -> JobEvidence:
    grown = replace(job.having(generation), touched_at=now)
    old = tuple(compact(each) for each in grown.generations[:-WHOLE_GENERATIONS])
    return replace(grown, generations=(*old, *grown.generations[-WHOLE_GENERATIONS:]))


def _same(job: JobEvidence, rule: str, sentence: str) -> Step:
    return Step(job=job, effects=(), reason=Reason(rule_id=f"classify.{rule}", sentence=sentence[:2_048]))

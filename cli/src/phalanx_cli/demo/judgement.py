"""Whether everything held: what came of each injected fault, and what must hold over the whole run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fault_contracts.faults import Attribution, FaultClassified
from fault_contracts.recovery import JobOutcome, PhaseTimes, RecoveryLevel
from phalanx_cli.demo.inject import Injection
from phalanx_cli.demo.scenario import TRUTHS, Fault
from phalanx_cli.demo.story import IncidentStory, JobStory

SUCCEEDED = "exit code 0"
FAILED = "exit code 1"
KILLED = "SIGKILL"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultResult:
    """One injected fault and what came of it. `problems` is empty when it went as it has to."""

    fault: Fault
    injected: str
    truth: str
    verdict: str
    reasons: tuple[str, ...]
    phases: PhaseTimes
    injected_to_resumed_s: float | None
    outcome: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """An injection and when it was made."""

    injection: Injection
    at: datetime
    incidents_before: int


def judge_recovery(story: JobStory, injected: Injected) -> FaultResult:
    """A fault that must be recovered from, once, with the right verdict."""
    fault = injected.injection.fault
    incident = _incident(story, injected.incidents_before)
    if incident is None:
        return _missing(fault, injected.injection.sentence, "no incident was opened")
    problems = []
    closed = incident.closed
    if closed is None or closed.outcome != "recovered":
        problems.append(f"the incident is {'still open' if closed is None else closed.outcome}, not recovered")
    verdict = story.verdict_of(incident)
    problems += _wrong_verdict(fault, verdict)
    resumed_s = None if incident.resumed is None else (incident.resumed.resumed_at - injected.at).total_seconds()
    return FaultResult(
        fault=fault,
        injected=injected.injection.sentence,
        truth=truth_words(fault),
        verdict=_verdict_words(verdict),
        reasons=_reasons(verdict),
        phases=closed.phases if closed else PhaseTimes(),
        injected_to_resumed_s=resumed_s,
        outcome="still open" if closed is None else closed.outcome,
        problems=tuple(problems),
    )


def judge_bug(story: JobStory, sentence: str) -> FaultResult:
    """The bug: one retry, then the end with a verdict of the user's fault and no further start."""
    if not story.incidents:
        return _missing(Fault.BUG, sentence, "no incident was opened")
    last = story.incidents[-1]
    verdict = story.verdict_of(last)
    problems = _wrong_verdict(Fault.BUG, verdict)
    ended = story.ended
    if ended is None or ended.outcome is not JobOutcome.FAILED_USER:
        problems.append(f"the job is {'not ended' if ended is None else ended.outcome}, not failed_user")
    elif ended.restarts != 1:
        problems.append(f"{ended.restarts} restarts instead of one")
    after = [plan for plan in last.plans if plan.level is not RecoveryLevel.FAILED]
    if after:
        problems.append("a restart was planned after the verdict")
    return FaultResult(
        fault=Fault.BUG,
        injected=sentence,
        truth=truth_words(Fault.BUG),
        verdict=_verdict_words(verdict),
        reasons=_reasons(verdict),
        phases=last.closed.phases if last.closed else PhaseTimes(),
        injected_to_resumed_s=None,
        outcome="not ended" if ended is None else str(ended.outcome),
        problems=tuple(problems),
    )


def whole_run_problems(
    story: JobStory, *, outcome: JobOutcome, incidents: int, left: Mapping[str, str], expected: Mapping[str, str]
) -> list[str]:
    """What must hold over one job besides its faults: its end, no incident too many, its agents' exit codes."""
    problems = []
    if story.ended is None or story.ended.outcome is not outcome:
        found = "not ended" if story.ended is None else story.ended.outcome
        problems.append(f"job {story.job_id} is {found}, not {outcome}")
    if len(story.incidents) != incidents:
        problems.append(f"job {story.job_id} had {len(story.incidents)} incidents; {incidents} faults were injected")
    for node_id, wanted in expected.items():
        if left.get(node_id) != wanted:
            problems.append(f"phalanx run on {node_id} ended with {left.get(node_id, 'nothing')}, not {wanted}")
    return problems


def truth_words(fault: Fault) -> str:
    """What the verdict has to be."""
    truth = TRUTHS[fault]
    return f"{truth.attribution}, {' or '.join(truth.causes)}"


def _incident(story: JobStory, place: int) -> IncidentStory | None:
    return story.incidents[place] if place < len(story.incidents) else None


def _missing(fault: Fault, sentence: str, problem: str) -> FaultResult:
    return FaultResult(
        fault=fault,
        injected=sentence,
        truth=truth_words(fault),
        verdict="none",
        reasons=(),
        phases=PhaseTimes(),
        injected_to_resumed_s=None,
        outcome="none",
        problems=(problem,),
    )


def _wrong_verdict(fault: Fault, verdict: FaultClassified | None) -> list[str]:
    truth = TRUTHS[fault]
    if verdict is None:
        return ["no verdict was given"]
    if verdict.attribution is not truth.attribution or verdict.cause not in truth.causes:
        return [f"the verdict is {_verdict_words(verdict)}, the truth is {truth_words(fault)}"]
    if verdict.attribution is not Attribution.UNKNOWN and not verdict.reasons:
        return ["the verdict gives no reason"]
    return []


def _verdict_words(verdict: FaultClassified | None) -> str:
    return "none" if verdict is None else f"{verdict.attribution}, {verdict.cause}"


def _reasons(verdict: FaultClassified | None) -> tuple[str, ...]:
    return () if verdict is None else tuple(f"[{reason.rule_id}] {reason.sentence}" for reason in verdict.reasons)

"""A judgement in the words of FaultClassified: reasons with their weights, what speaks against it, what else it may be.

One thing is decided here beside the engine: a user's fault at its first sight, in a job that had made progress, is
tried once more. That costs minutes; a job that was ended for a passing error costs a night.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from fault_attribution.finding import Finding
from fault_attribution.judgement import Hypothesis, Judgement, Support
from fault_attribution.verdict_text import SENTENCE_CHARS_MAX, verdict_text
from fault_classifier.domain.evidence import DeviceFault, Exit, Faulted, Generation, JobEvidence, Piece
from fault_classifier.domain.facts import Facts
from fault_contracts.faults import Action, Alternative, Attribution, Culprit, FaultClassified
from fault_contracts.ids import derived_id
from fault_contracts.payload import Reason

REASONS_MAX = 32
ALTERNATIVES_MAX = 2
DECIDE_MAX = 4
EVIDENCE_MAX = 64
ADVICE_CHARS_MAX = 7_000
_MACHINES = frozenset({Attribution.HARDWARE, Attribution.DRIVER, Attribution.PLATFORM})
PROVEN_KINDS = frozenset({"repeated_exception", "repeated_log_rule", "startup_exception", "oom_kill"})
"""Findings that say themselves whether a retry can help: they have counted, or nothing had begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What is to be said of a generation.

    Attributes:
        action: the judgement's, a failed device's own, or one retry instead of the end.
        one_retry: why it is tried once more; empty when it is not.
        sentence: the strongest reason.
    """

    judgement: Judgement
    action: Action
    one_retry: str
    sentence: str
    facts: Facts

    @classmethod
    def of(cls, judgement: Judgement, facts: Facts, generation: Generation, job: JobEvidence) -> Said:
        """With the one retry decided."""
        best = judgement.best
        one_retry = _one_retry(judgement, generation, job)
        return cls(
            judgement=judgement,
            action=Action.RESTART_PROCESS if one_retry else _action(judgement, facts, generation),
            one_retry=one_retry,
            sentence=best.support[0].sentence if best is not None else "no rule recognises what was reported",
            facts=facts,
        )


def write_verdict(
    said: Said,
    generation: Generation,
    job_id: str,
    *,
    supersedes: FaultClassified | None,
    provisional: bool,
    now: datetime,
) -> FaultClassified:
    """The message. Its id follows from the job, the generation, what is said of whom, and what it replaces."""
    judgement = said.judgement
    best = judgement.best
    rule_id = best.rule.rule_id if best is not None else "judge.nothing"
    anchor = best.anchor.finding_id if best is not None else generation.incident_id or "nothing"
    past = "" if supersedes is None else supersedes.fault_id
    version = generation.topology_version
    return FaultClassified(
        fault_id=derived_id(
            job_id, "fault", version, rule_id, anchor, generation.revisions, past, "provisional" if provisional else ""
        ),
        job_id=job_id,
        topology_version=version,
        attribution=judgement.attribution,
        cause=judgement.cause,
        culprit=_culprit(judgement, generation),
        confidence=judgement.confidence,
        action=said.action,
        reasons=_reasons(said, generation, rule_id),
        counter_evidence=_against(said),
        summary=_summary(said, generation, job_id),
        condition_ids=_condition_ids(said, generation),
        alternatives=tuple(_alternative(each, said.facts) for each in _others(said)[:ALTERNATIVES_MAX]),
        decide=tuple(each[:2_048] for each in judgement.decide[:DECIDE_MAX]),
        provisional=provisional,
        supersedes=past or None,
        classified_at=now,
    )


def contradicts(verdict: FaultClassified, said: Said) -> bool:
    """Whether what is known now says something else than a verdict that is out."""
    return (verdict.attribution, verdict.cause, verdict.action) != (
        said.judgement.attribution,
        said.judgement.cause,
        said.action,
    )


def blamed_device(judgement: Judgement, facts: Facts, generation: Generation) -> DeviceFault | None:
    """The failed device that a verdict on a machine rests on."""
    best = judgement.best
    if best is None or judgement.attribution not in _MACHINES:
        return None
    rests_on = set(evidence_of((best.anchor,), facts))
    return next((each for each in generation.devices if each.evidence_id in rests_on), None)


def _action(judgement: Judgement, facts: Facts, generation: Generation) -> Action:
    """What the driver wants, else what the policy of the device's check says: they know its history."""
    device = blamed_device(judgement, facts, generation)
    return judgement.action if device is None else device.action


def _one_retry(judgement: Judgement, generation: Generation, job: JobEvidence) -> str:
    best = judgement.best
    if judgement.action is not Action.DONT_RETRY_NOTIFY_USER or judgement.attribution is not Attribution.USER:
        return ""
    if best is None or best.anchor.kind in PROVEN_KINDS:
        return ""
    ends: tuple[Exit | Faulted, ...] = (*generation.exits, *generation.faulted)
    if not ends and not generation.lost:
        return f"no rank has failed of {judgement.cause}"
    steps = [each.step for each in ends if each.step is not None]
    if not steps:
        return ""  # Nothing is known to have worked: the same start comes to the same end.
    for earlier in job.before(generation.topology_version):
        told = earlier.verdict
        if told is not None and (told.attribution, told.cause) == (judgement.attribution, judgement.cause):
            return ""
    return (
        f"the job had come to step {max(steps)} and {judgement.cause} was not seen before: it is tried once more, and "
        "ends when it comes again"
    )


def _culprit(judgement: Judgement, generation: Generation) -> Culprit:
    culprit, best = judgement.culprit, judgement.best
    if culprit.gpu_uuid is None or best is None:
        return culprit
    if judgement.attribution not in (Attribution.HARDWARE, Attribution.DRIVER):
        return culprit.model_copy(update={"gpu_uuid": None})  # it told of the fault and has none
    # Hardware is known by uuid. A line may name a GPU otherwise; that stays in the reason.
    known = {each.gpu_uuid for each in generation.devices if each.gpu_uuid}
    named = culprit.gpu_uuid
    if named in known or named.startswith(("GPU-", "MIG-")):
        process = next((each.process for each in generation.devices if each.gpu_uuid == named and each.process), None)
        return culprit.model_copy(update={"process": process or culprit.process})
    return culprit.model_copy(update={"gpu_uuid": None})


def _reasons(said: Said, generation: Generation, rule_id: str) -> tuple[Reason, ...]:
    best = said.judgement.best
    if best is None:
        return (Reason(rule_id=rule_id, sentence=said.sentence),)
    reasons = [_reason(each, said.facts) for each in best.support]
    if said.one_retry:
        reasons.append(Reason(rule_id="classify.one_retry", sentence=said.one_retry))
    reasons += [
        Reason(rule_id=rule_id, sentence=twin.text[:2_048], evidence_ids=evidence_of((twin,), said.facts))
        for twin in _twins(best, said.facts)
    ]
    victims = [each for each in said.facts.victims if each.evidence_id not in best.anchor.because]
    if victims or generation.exits_dropped:
        reasons.insert(1, _victims(victims, generation.exits_dropped))
    return tuple(reasons[:REASONS_MAX])


def _twins(best: Hypothesis, facts: Facts) -> list[Finding]:
    """The same fact at other places."""
    anchor = best.anchor
    others = [each for each in facts.findings if each.kind == anchor.kind and each.finding_id != anchor.finding_id]
    return [each for each in others if each.text][:REASONS_MAX]


def _victims(victims: list[Exit], dropped: int) -> Reason:
    count = len(victims) + dropped
    shown = ", ".join(str(each.rank) for each in victims[:8])
    return Reason(
        rule_id="victims",
        sentence=f"{count} other deaths are consequences (ranks {shown}{', ...' if count > 8 else ''})",
        evidence_ids=tuple(each.evidence_id for each in victims)[:EVIDENCE_MAX],
    )


def _against(said: Said) -> tuple[Reason, ...]:
    best = said.judgement.best
    if best is None:
        return ()
    against = [_reason(each, said.facts) for each in best.against]
    rivals = [_told(each, said.facts) for each in _rivals(said) if each is not best]
    return tuple([*against, *rivals][:REASONS_MAX])


def _others(said: Said) -> list[Hypothesis]:
    """Without a verdict the best hypothesis is one of the possibilities."""
    best = said.judgement.best
    is_open = best is not None and said.judgement.attribution is not best.rule.attribution
    return [each for each in _rivals(said) if is_open or each is not best]


def _rivals(said: Said) -> list[Hypothesis]:
    """Hypotheses, without those that say less of the same fact: that a rank was killed is no rival of who did it."""
    judgement = said.judgement
    best = judgement.best
    if best is None:
        return []
    known = set(evidence_of((best.anchor,), said.facts))
    return [
        each
        for each in judgement.hypotheses
        if each is best
        or each.rule.attribution is not Attribution.UNKNOWN
        or not set(evidence_of((each.anchor,), said.facts)) <= known
    ]


def _alternative(hypothesis: Hypothesis, facts: Facts) -> Alternative:
    return Alternative(
        attribution=hypothesis.rule.attribution,
        cause=hypothesis.rule.cause,
        confidence=hypothesis.share,
        action=hypothesis.action,
        reason=_told(hypothesis, facts),
    )


def _told(hypothesis: Hypothesis, facts: Facts) -> Reason:
    """A hypothesis by the best that speaks for it, under the name of its rule."""
    return _reason(hypothesis.support[0], facts)


def _reason(support: Support, facts: Facts) -> Reason:
    return Reason(
        rule_id=support.rule_id,
        sentence=support.sentence[:SENTENCE_CHARS_MAX],
        evidence_ids=evidence_of(support.findings, facts),
        weight=support.score,
    )


def evidence_of(findings: tuple[Finding, ...], facts: Facts) -> tuple[str, ...]:
    """What findings rest on at last: conditions, reports, lines; a derived one rests on others."""
    ids: dict[str, None] = {}
    left, seen = list(findings), set()
    while left and len(ids) < EVIDENCE_MAX:
        each = left.pop(0)
        seen.add(each.finding_id)
        for name in each.because or (each.finding_id,):
            deeper = facts.by_id.get(name)
            if deeper is None or deeper.finding_id == each.finding_id:
                ids[name] = None
            elif deeper.finding_id not in seen:
                left.append(deeper)
    return tuple(ids)


def _summary(said: Said, generation: Generation, job_id: str) -> str:
    text = verdict_text(replace(said.judgement, action=said.action)).summary[:ADVICE_CHARS_MAX]
    parts = [f"Job {job_id}, generation {generation.topology_version}: {text}"]
    victims = len(said.facts.victims) + generation.exits_dropped
    if victims:
        parts.append(f"{victims} {'rank' if victims == 1 else 'ranks'} died only of that.")
    if said.one_retry:
        parts.append(f"For now: {said.one_retry}.")
    return " ".join(parts)


def _condition_ids(said: Said, generation: Generation) -> tuple[str, ...]:
    """What the verdict rests on first, then the rest of what was raised."""
    best = said.judgement.best
    first = () if best is None else best.anchor.because
    pieces: tuple[Piece, ...] = (*generation.exits, *generation.faulted, *generation.devices, *generation.notes)
    raised = {each.evidence_id for each in pieces}
    ordered = [*(each for each in first if each in raised), *sorted(raised)]
    return tuple(dict.fromkeys(ordered))[:EVIDENCE_MAX]

"""Findings to a judgement: every cause rule whose terms hold becomes a hypothesis, and their weights are compared.

Weights are natural logarithms of likelihood ratios, so that they add up, and each is shown with the sentence and the
findings behind it. The result is a function of the set of findings: neither arrival order nor clocks play a part
beyond what derivations make of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from string import Formatter

from fault_attribution.cause_rule import CauseBook, CauseRule, CulpritKind, Weight
from fault_attribution.finding import Finding, Role
from fault_attribution.judgement import Hypothesis, Judgement, Support
from fault_attribution.signature import RuleState
from fault_attribution.term import FindingsByKind
from fault_contracts.faults import Action, Attribution, Culprit

HYPOTHESES_MAX = 8
"""Shown; more help nobody."""
SUPPORT_FINDINGS_MAX = 16
WELL = frozenset({"nothing_failed", "work_went_on", "ended_well"})
"""Derived when no process failed and work is seen after whatever happened."""
CONFIDENCE_MAX = 0.99
"""No verdict from logs is certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePolicy:
    """When a verdict is given.

    Attributes:
        confidence_min: below it the answer is unknown.
        unknown_score: weight of "none of the hypotheses"; a rule with this score alone comes to 0.5.
    """

    confidence_min: float = 0.5
    unknown_score: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values that would make every answer, or none, a verdict.

        Raises:
            ValueError: with the name of the value.
        """
        if not 0.3 <= self.confidence_min <= 0.95:
            raise ValueError(f"confidence_min is {self.confidence_min}; it must be 0.3 to 0.95")


def judge(findings: Iterable[Finding], book: CauseBook, policy: JudgePolicy | None = None) -> Judgement:
    """Weigh all rules on findings that derivations have completed (see derive.complete)."""
    policy = policy or JudgePolicy()
    known = tuple(findings)
    by_kind = FindingsByKind(known)
    rules = book.concerned(by_kind.kinds)
    found = [hypothesis for rule in rules if (hypothesis := _hypothesis(rule, by_kind, book)) is not None]
    active = _shared([each for each in found if each.rule.state is RuleState.ACTIVE], policy)
    observed = tuple(each for each in found if each.rule.state is RuleState.OBSERVE)[:HYPOTHESES_MAX]
    if not active:
        return _nothing(known, observed)
    best = active[0]
    confidence = min(CONFIDENCE_MAX, _mass_of(best.rule.attribution, active))
    decide = tuple(dict.fromkeys(each.rule.decide for each in active[:2] if each.rule.decide))
    attribution, action = best.rule.attribution, best.action
    if attribution is not Attribution.UNKNOWN and confidence < policy.confidence_min:
        attribution, action = Attribution.UNKNOWN, _cautious(action, known)
    return Judgement(
        attribution=attribution,
        cause=best.rule.cause,
        action=action,
        culprit=best.culprit,
        confidence=round(confidence, 2),
        hypotheses=tuple(active[:HYPOTHESES_MAX]),
        observed=observed,
        decide=decide,
    )


def _hypothesis(rule: CauseRule, by_kind: FindingsByKind, book: CauseBook) -> Hypothesis | None:
    if rule.state is RuleState.OFF:
        return None
    anchored = _anchored(rule, by_kind)
    if anchored is None:
        return None
    weight, anchor, seen = anchored
    support = [_support(rule.rule_id, weight, seen, weight.score)]
    against: list[Support] = []
    for more in rule.more:
        held = more.see.holds(by_kind, anchor)
        if held is not None:
            support.append(_support(rule.rule_id, more, held.findings, more.score))
    for less in rule.less:
        held = less.see.holds(by_kind, anchor)
        if held is not None:
            against.append(_support(rule.rule_id, less, held.findings, -less.score))
    for prior in book.priors:
        held = prior.see.holds(by_kind, anchor) if prior.attribution is rule.attribution else None
        if held is not None:
            support.append(
                Support(rule_id="prior", score=prior.score, sentence=prior.say, findings=_bounded(held.findings))
            )
    action = rule.action
    for choice in rule.actions:
        if choice.see.holds(by_kind, anchor) is not None:
            action = choice.action
            break
    return Hypothesis(
        rule=rule,
        anchor=anchor,
        score=round(sum(each.score for each in (*support, *against)), 4),
        share=0.0,
        action=action,
        culprit=_culprit(rule, anchor),
        support=tuple(support),
        against=tuple(against),
    )


def _anchored(rule: CauseRule, by_kind: FindingsByKind) -> tuple[Weight, Finding, tuple[Finding, ...]] | None:
    """The heaviest term that holds, on the anchor for which most of the rest holds, then in the stable order."""
    chosen: tuple[Weight, Finding, tuple[Finding, ...]] | None = None
    for weight in rule.when:
        if chosen is not None and weight.score <= chosen[0].score + 1e-9:
            continue
        held = [
            (anchor, (anchor, *found.findings))
            for anchor in weight.see.anchors(by_kind)
            if (found := weight.see.holds(by_kind, anchor, skip_first=True)) is not None
        ]
        if held:
            anchor, seen = held[0] if len(held) == 1 else max(held, key=lambda one: _rest(rule, one[0], by_kind))
            chosen = (weight, anchor, seen)
    return chosen


def _rest(rule: CauseRule, anchor: Finding, by_kind: FindingsByKind) -> float:
    more = sum(each.score for each in rule.more if each.see.holds(by_kind, anchor) is not None)
    return more - sum(each.score for each in rule.less if each.see.holds(by_kind, anchor) is not None)


def _shared(found: Sequence[Hypothesis], policy: JudgePolicy) -> list[Hypothesis]:
    """With the share of each, best first. Rules that lead to one cause of one party are one hypothesis: the best."""
    best: dict[tuple[Attribution, str], Hypothesis] = {}
    for each in sorted(found, key=lambda one: (-one.score, one.rule.rule_id)):
        best.setdefault((each.rule.attribution, each.rule.cause), each)
    ordered = list(best.values())
    if not ordered:
        return []
    top = max(ordered[0].score, policy.unknown_score)
    total = math.exp(policy.unknown_score - top) + sum(math.exp(each.score - top) for each in ordered)
    return [replace(each, share=round(math.exp(each.score - top) / total, 4)) for each in ordered]


def _mass_of(attribution: Attribution, hypotheses: Sequence[Hypothesis]) -> float:
    return sum(each.share for each in hypotheses if each.rule.attribution is attribution)


def _nothing(known: Sequence[Finding], observed: tuple[Hypothesis, ...]) -> Judgement:
    failed = any(each.role in (Role.CAUSE, Role.SYMPTOM, Role.VICTIM) for each in known) and not _is_well(known)
    # Healthy logs are full of lines that look like errors. By themselves they are shown, and nothing is done.
    odd = any(each.role not in (Role.CONTEXT, Role.PROGRESS, Role.BENIGN) for each in known)
    return Judgement(
        attribution=Attribution.UNKNOWN,
        cause="unrecognised" if odd else "no_evidence",
        action=Action.RESTART_PROCESS if failed else Action.WAIT_OR_IGNORE,
        culprit=Culprit(),
        confidence=0.0,
        hypotheses=(),
        observed=observed,
        decide=("the first error of the rank that failed first, and the kernel log of its node",),
    )


def _is_well(known: Iterable[Finding]) -> bool:
    """Whether the job is seen to be well: what then was found is shown, and nothing is done."""
    return any(each.kind in WELL for each in known)


def _cautious(action: Action, known: Iterable[Finding]) -> Action:
    """What an unsure verdict may cost: a restart or nothing. No node and no job is given up on a guess."""
    if _is_well(known):
        return Action.WAIT_OR_IGNORE
    if action in (Action.WAIT_OR_IGNORE, Action.RESTART_JOB):
        return action
    return Action.RESTART_PROCESS


def _culprit(rule: CauseRule, anchor: Finding) -> Culprit:
    if rule.culprit is CulpritKind.NOBODY:
        return Culprit()
    if rule.culprit is CulpritKind.NODE:
        return Culprit(node_id=anchor.node[:256] or None)
    return Culprit(
        node_id=anchor.node[:256] or None,
        rank=anchor.rank,
        gpu_uuid=anchor.device[:256] or None,
        process=f"pid {anchor.process}"[:256] if anchor.process else None,
    )


def _support(rule_id: str, weight: Weight, seen: tuple[Finding, ...], score: float) -> Support:
    return Support(rule_id=rule_id, score=score, sentence=_sentence(weight, seen), findings=_bounded(seen))


def _bounded(seen: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple({each.finding_id: each for each in seen}.values())[:SUPPORT_FINDINGS_MAX]


def _sentence(weight: Weight, seen: tuple[Finding, ...]) -> str:
    first = seen[0] if seen else None
    if not weight.say:
        return first.text if first is not None else f"not seen: {weight.see.text}"
    known: dict[str, str] = {}
    if first is not None:
        known = {
            **first.captures,
            "node": first.node or "an unnamed node",
            "rank": "?" if first.rank is None else str(first.rank),
            "device": first.device or "an unnamed device",
            "process": first.process or "?",
            "text": first.text,
            "kind": first.kind,
        }
    # Values are put in once and never read as a template themselves: a log line may contain braces.
    parts = [
        literal + ("" if name is None else known.get(name, "?"))
        for literal, name, _, _ in Formatter().parse(_for_unknowns(weight.say, first))
    ]
    return "".join(parts)


def _for_unknowns(say: str, first: Finding | None) -> str:
    """The template without the words for what is not known: `a rank`, and not `rank ? on an unnamed node`."""
    if first is None or first.rank is None:
        say = say.replace("rank {rank}", "a rank")
    if first is None or not first.node:
        say = say.replace(" on {node}", "").replace(" of {node}", "")
    if first is None or not first.device:
        say = say.replace("GPU {device}", "a GPU").replace(" of {device}", "")
    return say

"""Findings to a judgement: every cause rule whose terms hold becomes a hypothesis, and their weights are compared.

Weights are natural logarithms of likelihood ratios, so that they add up, and each is shown with the sentence and the
findings behind it. The result is a function of the set of findings: neither arrival order nor clocks play a part
beyond what derivations make of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import NamedTuple

from fault_attribution.cause_rule import CauseBook, CauseRule, CulpritKind, Prior, Weight
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
    found = [weighed for rule in rules if (weighed := _weigh(rule, by_kind, book)) is not None]
    shares = _shared([each for each in found if each.rule.state is RuleState.ACTIVE], policy)
    observed = tuple(
        _hypothesis(each, 0.0)
        for each in [one for one in found if one.rule.state is RuleState.OBSERVE][:HYPOTHESES_MAX]
    )
    if not shares:
        return _nothing(known, observed)
    hypotheses = tuple(_hypothesis(each, share) for each, share in shares[:HYPOTHESES_MAX])
    best = hypotheses[0]
    confidence = min(CONFIDENCE_MAX, _mass_of(best.rule.attribution, shares))
    decide = tuple(dict.fromkeys(each.rule.decide for each in hypotheses[:2] if each.rule.decide))
    attribution, action = best.rule.attribution, best.action
    if attribution is not Attribution.UNKNOWN and confidence < policy.confidence_min:
        attribution, action = Attribution.UNKNOWN, _cautious(action, known)
    return Judgement(
        attribution=attribution,
        cause=best.rule.cause,
        action=action,
        culprit=best.culprit,
        confidence=round(confidence, 2),
        hypotheses=hypotheses,
        observed=observed,
        decide=decide,
    )


class _Weighed(NamedTuple):
    """A rule that holds, before it is put into words: most are not shown.

    Attributes:
        terms: what speaks for and against it, with what each rests on.
    """

    rule: CauseRule
    anchor: Finding
    score: float
    action: Action
    terms: list[tuple[float, Weight | Prior, tuple[Finding, ...]]]


def _weigh(rule: CauseRule, by_kind: FindingsByKind, book: CauseBook) -> _Weighed | None:
    if rule.state is RuleState.OFF:
        return None
    anchored = _anchored(rule, by_kind)
    if anchored is None:
        return None
    weight, anchor, seen = anchored
    terms: list[tuple[float, Weight | Prior, tuple[Finding, ...]]] = [(weight.score, weight, seen)]
    for more in rule.more:
        held = more.see.holds(by_kind, anchor)
        if held is not None:
            terms.append((more.score, more, held))
    for prior in book.priors:
        held = prior.see.holds(by_kind, anchor) if prior.attribution is rule.attribution else None
        if held is not None:
            terms.append((prior.score, prior, held))
    for less in rule.less:
        held = less.see.holds(by_kind, anchor)
        if held is not None:
            terms.append((-less.score, less, held))
    action = rule.action
    for choice in rule.actions:
        if choice.see.holds(by_kind, anchor) is not None:
            action = choice.action
            break
    return _Weighed(rule, anchor, round(sum([score for score, _, _ in terms]), 4), action, terms)


def _hypothesis(weighed: _Weighed, share: float) -> Hypothesis:
    """A rule that holds, in words."""
    rule, anchor, score, action, terms = weighed
    spoken = [_support(rule.rule_id, each, seen, weight) for weight, each, seen in terms]
    return Hypothesis(
        rule=rule,
        anchor=anchor,
        score=score,
        share=share,
        action=action,
        culprit=_culprit(rule, anchor),
        support=tuple(each for each in spoken if each.score >= 0),
        against=tuple(each for each in spoken if each.score < 0),
    )


def _anchored(rule: CauseRule, by_kind: FindingsByKind) -> tuple[Weight, Finding, tuple[Finding, ...]] | None:
    """The heaviest term that holds, on the anchor for which most of the rest holds, then in the stable order."""
    chosen: tuple[Weight, Finding, tuple[Finding, ...]] | None = None
    for weight in rule.when:
        if chosen is not None and weight.score <= chosen[0].score + 1e-9:
            continue
        held = [
            (anchor, (anchor, *found))
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


def _shared(found: Sequence[_Weighed], policy: JudgePolicy) -> list[tuple[_Weighed, float]]:
    """With the share of each, best first. Rules that lead to one cause of one party are one hypothesis: the best."""
    best: dict[tuple[Attribution, str], _Weighed] = {}
    for each in sorted(found, key=lambda one: (-one.score, one.rule.rule_id)):
        best.setdefault((each.rule.attribution, each.rule.cause), each)
    ordered = list(best.values())
    if not ordered:
        return []
    top = max(ordered[0].score, policy.unknown_score)
    total = math.exp(policy.unknown_score - top) + sum(math.exp(each.score - top) for each in ordered)
    return [(each, round(math.exp(each.score - top) / total, 4)) for each in ordered]


def _mass_of(attribution: Attribution, shares: Sequence[tuple[_Weighed, float]]) -> float:
    return sum(share for each, share in shares if each.rule.attribution is attribution)


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


def _support(rule_id: str, term: Weight | Prior, seen: tuple[Finding, ...], score: float) -> Support:
    if isinstance(term, Prior):
        return Support(rule_id="prior", score=score, sentence=term.say, findings=_bounded(seen))
    return Support(rule_id=rule_id, score=score, sentence=_sentence(term, seen), findings=_bounded(seen))


def _bounded(seen: tuple[Finding, ...]) -> tuple[Finding, ...]:
    if len(seen) < 2:
        return seen
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
    has_rank = first is not None and first.rank is not None
    parts = _template(
        weight.say, has_rank, first is not None and first.node != "", first is not None and first.device != ""
    )
    return "".join([literal if name is None else literal + known.get(name, "?") for literal, name in parts])


@lru_cache(maxsize=4_096)
def _template(say: str, has_rank: bool, has_node: bool, has_device: bool) -> tuple[tuple[str, str | None], ...]:
    """A sentence of a rule in parts: text, and the name of the value behind it.

    Without the words for what is not known: `a rank`, and not `rank ? on an unnamed node`.
    """
    if not has_rank:
        say = say.replace("rank {rank}", "a rank")
    if not has_node:
        say = say.replace(" on {node}", "").replace(" of {node}", "")
    if not has_device:
        say = say.replace("GPU {device}", "a GPU").replace(" of {device}", "")
    return tuple((literal, name) for literal, name, _, _ in Formatter().parse(say))

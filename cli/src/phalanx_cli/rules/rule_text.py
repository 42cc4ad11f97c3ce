"""A rule, a kind or a cause in words, for `phalanx rules explain`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from fault_attribution.cause_rule import CauseRule, Weight
from fault_attribution.checking.kind_names import KindNames
from fault_attribution.derive.derived_kinds import DERIVED_KINDS
from fault_attribution.live_kinds import LIVE_KINDS
from fault_attribution.loading.rule_files import RuleSet
from fault_attribution.matching.error_look import FRAME, LOOKS
from fault_attribution.signature import RuleState, Signature

COLUMNS = 110
NAMES_MAX = 40
"""Rules listed behind a kind; progress and job_failed are named by most."""


def explain(rules: RuleSet, word: str) -> list[str]:
    """All that the word names: rules by id, kinds, causes. Empty when it names nothing."""
    lines: list[str] = []
    for signature in (*rules.signatures, LOOKS, FRAME):
        if word == signature.signature_id:
            lines += [*_signature(signature), *_uses(rules, signature.kind)]
    for rule in rules.causes.rules:
        if word in (rule.rule_id, rule.cause):
            lines += _cause(rule)
    if KindNames(rules.signatures).knows(word) and "*" not in word:
        lines += _kind(rules, word)
    return lines


def listed(rules: RuleSet) -> list[str]:
    """One line a rule."""
    rows = [(each.signature_id, str(each.role), each.kind, each.state, each.meaning) for each in rules.signatures]
    rows += [(each.rule_id, "cause of", each.cause, each.state, each.meaning) for each in rules.causes.rules]
    return [
        textwrap.shorten(f"{name:<42} {role:<9} {kind:<32} {_state(state)}{meaning}", 2 * COLUMNS, placeholder=" ...")
        if len(meaning) > COLUMNS
        else f"{name:<42} {role:<9} {kind:<32} {_state(state)}{meaning}"
        for name, role, kind, state, meaning in rows
    ]


def _state(state: RuleState) -> str:
    return "" if state is RuleState.ACTIVE else f"[{state}] "


def _signature(signature: Signature) -> Iterator[str]:
    place = f"{signature.file}:{signature.line}" if signature.file else "built in"
    yield f"signature {signature.signature_id} ({signature.state}), {place}"
    yield from _field("means", signature.meaning)
    yield from _field("finds", f"{signature.kind}, a {signature.role}")
    yield from _field("pattern", signature.pattern, wrap=False)
    if signature.sources:
        yield from _field("lines of", ", ".join(sorted(signature.sources)))
    if signature.sets:
        yield from _field("sets", ", ".join(f"{name}={value}" for name, value in sorted(signature.sets.items())))
    if signature.overrides:
        yield from _field("overrides", ", ".join(sorted(signature.overrides)))
    yield from _field("source", signature.origin)
    for example in signature.matches[:2]:
        yield from _field("for example", example.line, wrap=False)
    yield ""


def _cause(rule: CauseRule) -> Iterator[str]:
    yield f"cause rule {rule.rule_id} ({rule.state}), {rule.file}:{rule.line}"
    yield from _field("verdict", f"{rule.attribution}, {rule.cause}; do: {rule.action}; blames: {rule.culprit}")
    yield from _field("means", rule.meaning)
    yield "  weights (natural logarithms of how much likelier it becomes; 1.0 is what no rule at all weighs):"
    for name, sign, weights in (("when", "+", rule.when), ("more", "+", rule.more), ("less", "-", rule.less)):
        for weight in weights:
            yield from _weight(name, sign, weight)
    for choice in rule.actions:
        yield f"    action {choice.action} instead, where {choice.see.text}"
    yield from _field("to do", rule.advice)
    yield from _field("settled by", rule.decide)
    yield from _field("not meant", rule.near_miss)
    yield from _field("source", rule.origin)
    yield ""


def _weight(name: str, sign: str, weight: Weight) -> Iterator[str]:
    yield f"    {name:<5} {sign}{weight.score:<5g} {weight.see.text}"
    if weight.say:
        yield f"                 {weight.say}"


def _kind(rules: RuleSet, kind: str) -> Iterator[str]:
    yield f"kind {kind}"
    if kind in DERIVED_KINDS:
        yield from _field("derived", DERIVED_KINDS[kind])
    if kind in LIVE_KINDS:
        yield from _field("seen live", LIVE_KINDS[kind])
    for signature in (*rules.signatures, LOOKS, FRAME):
        if finds(signature, kind):
            yield from _field("found by", f"{signature.signature_id}: {signature.meaning}")
    yield from _uses(rules, kind)


def finds(signature: Signature, kind: str) -> bool:
    """Whether a signature can find a kind; part of its kind may come from the line (`xid_{code}`)."""
    return re.fullmatch(".+".join(map(re.escape, re.split(r"\{\w+\}", signature.kind))), kind) is not None


def _uses(rules: RuleSet, kind: str) -> Iterator[str]:
    """Cause rules that name a kind, with what it weighs there."""
    found = [line for rule in rules.causes.rules for line in _weighed(rule, kind)]
    yield from found[:NAMES_MAX]
    if len(found) > NAMES_MAX:
        yield f"  and {len(found) - NAMES_MAX} more"
    if not found:
        yield "  no cause rule names it"
    yield ""


def _weighed(rule: CauseRule, kind: str) -> Iterator[str]:
    for name, sign, weights in (("when", "+", rule.when), ("more", "+", rule.more), ("less", "-", rule.less)):
        for weight in weights:
            if any(_names(each, kind) for each in weight.see.kinds):
                yield f"  used by      {rule.rule_id:<40} {name:<5} {sign}{weight.score:<5g} {weight.see.text}"


def _names(word: str, kind: str) -> bool:
    """Whether a word of a term means the kind; `*` alone means all kinds and says nothing of this one."""
    return word != "*" and (kind.startswith(word[:-1]) if word.endswith("*") else word == kind)


def _field(name: str, text: str, *, wrap: bool = True) -> Iterable[str]:
    if not wrap:
        return [f"  {name:<12} {text}"]
    return textwrap.wrap(
        f"{name:<12} {text}", COLUMNS, initial_indent="  ", subsequent_indent=" " * 15, break_on_hyphens=False
    )

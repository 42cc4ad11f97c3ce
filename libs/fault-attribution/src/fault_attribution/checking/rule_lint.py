"""What is wrong with a set of rules that can be read: words that nothing finds, patterns that twins have, and the like.

A rule with such a mistake does nothing, or costs time on every line; nobody would notice while it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from string import Formatter

from fault_attribution.cause_rule import CauseBook, CauseRule
from fault_attribution.checking.kind_names import KindNames
from fault_attribution.loading.rule_files import RuleSet
from fault_attribution.matching.pattern_syntax import in_re2_syntax, required_literals
from fault_attribution.matching.signature_matcher import check_patterns
from fault_attribution.signature import Signature
from fault_attribution.term import Term

_SLUG = re.compile(r"[a-z0-9][a-z0-9_]*")
_KIND = re.compile(r"[a-z0-9_{}]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A mistake.

    Attributes:
        place: file and line.
        rule: id of the rule.
        text: what is wrong, and what to do.
    """

    place: str
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.rule}: {self.text}"


def lint(rules: RuleSet) -> list[Problem]:
    """All mistakes, signatures first, each in the order of its file."""
    return [*_signatures(rules.signatures), *_causes(rules.causes, KindNames(rules.signatures))]


def _signatures(signatures: tuple[Signature, ...]) -> Iterator[Problem]:
    ids = {each.signature_id for each in signatures}
    twins: dict[tuple[str, str], Signature] = {}
    for each in signatures:
        place = f"{each.file}:{each.line}"
        for refusal in check_patterns([each]):
            yield Problem(place=place, rule=each.signature_id, text=refusal.rpartition(f"{each.signature_id}: ")[2])
            break
        else:
            if required_literals(in_re2_syntax(each.pattern)) is None:
                yield Problem(
                    place=place,
                    rule=each.signature_id,
                    text="the pattern has no fixed text of 3 letters that each of its alternatives contains, so every "
                    "line is tried; write one, for example `% /` for `%\\s+/`",
                )
        if not _KIND.fullmatch(each.kind):
            yield Problem(place=place, rule=each.signature_id, text=f"find {each.kind!r} is no slug of a-z, 0-9 and _")
        groups = set(re.findall(r"\(\?P<(\w+)>", each.pattern)) | each.sets.keys()
        for name in re.findall(r"\{(\w+)\}", each.kind):
            if name not in groups:
                yield Problem(place=place, rule=each.signature_id, text=f"find uses {{{name}}}, which no group catches")
        for name in sorted(each.overrides):
            if name not in ids or name == each.signature_id:
                yield Problem(
                    place=place, rule=each.signature_id, text=f"overrides {name}, which is no other signature"
                )
        twin = twins.setdefault((each.pattern, each.kind), each)
        if twin is not each:
            text = f"has the pattern and kind of {twin.signature_id} in {twin.file}:{twin.line}; one is enough"
            yield Problem(place=place, rule=each.signature_id, text=text)


def _causes(book: CauseBook, kinds: KindNames) -> Iterator[Problem]:
    for rule in book.rules:
        place = f"{rule.file}:{rule.line}"
        if not _SLUG.fullmatch(rule.cause):
            yield Problem(place=place, rule=rule.rule_id, text=f"cause {rule.cause!r} is no slug of a-z, 0-9 and _")
        weights = (*rule.when, *rule.more, *rule.less)
        for term in (*(weight.see for weight in weights), *(choice.see for choice in rule.actions)):
            yield from _unknown(term, place, rule.rule_id, kinds)
        for weight in weights:
            for _, name, form, conversion in Formatter().parse(weight.say):
                if name is not None and (form or conversion or not re.fullmatch(r"\w+", name)):
                    text = f"say has {{{name}...}}; only plain names of captures and places are filled in"
                    yield Problem(place=place, rule=rule.rule_id, text=text)
    for prior in book.priors:
        yield from _unknown(prior.see, "priors.yaml", f"prior of {prior.attribution}", kinds)
    yield from _twin_causes(book.rules)


def _unknown(term: Term, place: str, rule: str, kinds: KindNames) -> Iterator[Problem]:
    for kind in sorted(term.kinds):
        if not kinds.knows(kind):
            near = kinds.near(kind)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            yield Problem(place=place, rule=rule, text=f"{term.text!r}: nothing finds the kind {kind}{hint}")


def _twin_causes(rules: Iterable[CauseRule]) -> Iterator[Problem]:
    """Two rules with the same condition and the same answer."""
    known: dict[tuple[str, str, frozenset[str]], CauseRule] = {}
    for rule in rules:
        key = (rule.attribution, rule.cause, frozenset(weight.see.text for weight in rule.when))
        twin = known.setdefault(key, rule)
        if twin is not rule:
            yield Problem(
                place=f"{rule.file}:{rule.line}",
                rule=rule.rule_id,
                text=f"says the same as {twin.rule_id} in {twin.file}:{twin.line}",
            )

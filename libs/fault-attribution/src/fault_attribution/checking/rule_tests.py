"""Runs the tests that rules carry: each line of a signature, each case of a cause, through the whole engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fault_attribution.cause_rule import CauseRule, CauseTest
from fault_attribution.checking.rule_lint import Problem
from fault_attribution.engine import Engine
from fault_attribution.evidence_line import EvidenceLine
from fault_attribution.loading.rule_files import RuleSet
from fault_attribution.matching.signature_matcher import SignatureMatcher
from fault_attribution.signature import RuleState, Signature

TEXT_MAX = 160
"""Of a line that is quoted in a failure."""


@dataclass(slots=True, kw_only=True)
class TestRun:
    """How many tests ran, and which failed."""

    ran: int = 0
    failed: list[Problem] = field(default_factory=list)


def run_tests(rules: RuleSet, files: Iterable[str] | None = None) -> TestRun:
    """Run the tests of all rules, or of those of some files, with all rules in force."""
    wanted = None if files is None else set(files)
    engine = Engine(rules)
    run = TestRun()
    for signature in rules.signatures:
        if signature.state is not RuleState.OFF and (wanted is None or signature.file in wanted):
            run.ran += len(signature.matches) + len(signature.misses)
            run.failed += _signature(signature, engine.matcher)
    for rule in rules.causes.rules:
        if rule.state is not RuleState.OFF and (wanted is None or rule.file in wanted):
            run.ran += len(rule.holds) + len(rule.misses)
            run.failed += _cause(rule, engine)
    return run


def _signature(signature: Signature, matcher: SignatureMatcher) -> Iterator[Problem]:
    def problem(text: str) -> Problem:
        return Problem(place=f"{signature.file}:{signature.line}", rule=signature.signature_id, text=text)

    for example in signature.matches:
        found = matcher.says(signature.signature_id, EvidenceLine(text=example.line))
        if found is None:
            yield problem(f"does not match {_quoted(example.line)}")
            continue
        for name, value in example.captures.items():
            got = found.captures.get(name)
            if got != value:
                yield problem(f"captures {name}={got!r}, not {value!r}, of {_quoted(example.line)}")
    for line in signature.misses:
        if matcher.says(signature.signature_id, EvidenceLine(text=line)) is not None:
            yield problem(f"matches {_quoted(line)}, which it must not")


def _cause(rule: CauseRule, engine: Engine) -> Iterator[Problem]:
    for test in rule.holds:
        problem = _holds(rule, test, engine)
        if problem:
            yield Problem(place=f"{rule.file}:{test.line or rule.line}", rule=rule.rule_id, text=problem)
    for test in rule.misses:
        judged = engine.diagnose(test.lines, test.facts).judgement
        if (
            (judged.attribution, judged.cause) == (rule.attribution, rule.cause)
            and judged.best is not None
            and (judged.best.rule.rule_id == rule.rule_id)
        ):
            text = f"is the verdict ({judged.confidence:g}) for evidence that is no case of it"
            yield Problem(place=f"{rule.file}:{test.line or rule.line}", rule=rule.rule_id, text=text)


def _holds(rule: CauseRule, test: CauseTest, engine: Engine) -> str:
    judged = engine.diagnose(test.lines, test.facts).judgement
    if rule.state is RuleState.OBSERVE:
        seen = any(each.rule.rule_id == rule.rule_id for each in judged.observed)
        return "" if seen else "is observed only, and does not even hold for its own evidence"
    if (judged.attribution, judged.cause) != (rule.attribution, rule.cause):
        best = judged.best
        won = "nothing" if best is None else f"{best.rule.rule_id} with {best.score:g}"
        own = next((each for each in judged.hypotheses if each.rule.rule_id == rule.rule_id), None)
        had = "does not hold at all" if own is None else f"comes to {own.score:g}"
        return f"the verdict is {judged.attribution} {judged.cause} ({judged.confidence:g}), by {won}; this rule {had}"
    if test.action is not None and judged.action is not test.action:
        return f"the action is {judged.action}, not {test.action}"
    return ""


def _quoted(line: str) -> str:
    return repr(line if len(line) <= TEXT_MAX else line[:TEXT_MAX] + "…")

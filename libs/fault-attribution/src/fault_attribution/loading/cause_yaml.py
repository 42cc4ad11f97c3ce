"""Cause rules and priors from a YAML file, each problem with its file and line."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

from fault_attribution.cause_rule import ActionChoice, CauseRule, CauseTest, CulpritKind, Prior, Weight
from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.finding import Finding, Role
from fault_attribution.signature import RuleState
from fault_attribution.term import Term, TermRefused, parse_term
from fault_contracts.faults import Action, Attribution
from service_kit.yaml_fields import Fields, read_lists, table_of

SCORE_MAX = 12.0
"""Twelve natural logarithms are 160,000 to one; a weight beyond it is a typing error."""

_TEST_LINE = re.compile(
    r"^(?P<source>[a-z0-9-]+)(?: (?P<node>[A-Za-z][\w.-]*))?(?: (?P<rank>\d+))?"
    r"(?: @(?P<at>-?\d+(?:\.\d+)?))? \| (?P<text>.*)$",
    re.DOTALL,
)

_TEST_FACT = re.compile(
    r"^(?P<kind>[a-z0-9_]+)(?: (?P<node>[A-Za-z][\w.-]*))?(?: (?P<rank>\d+))?(?: #(?P<device>\S+))?"
    r"(?: \[(?P<captures>[^\]]*)\])? \| (?P<text>.*)$",
    re.DOTALL,
)


def read_causes(path: Path) -> tuple[CauseRule, ...]:
    """All cause rules of a file.

    Raises:
        PolicyRefused: with file, line and reason.
    """
    rows = read_lists(path, {"causes"})["causes"]
    return tuple(table_of(rows, lambda row: _rule(path, row), lambda rule: rule.rule_id).values())


def read_priors(path: Path) -> tuple[Prior, ...]:
    """All priors of a file.

    Raises:
        PolicyRefused: with file, line and reason.
    """
    priors: list[Prior] = []
    for row in read_lists(path, {"priors"})["priors"]:
        prior = Prior(
            attribution=row.choice("attribution", Attribution),
            see=_term(row),
            score=row.number("score", -SCORE_MAX, SCORE_MAX),
            say=row.text("say"),
            origin=row.text("source"),
        )
        row.end()
        priors.append(prior)
    return tuple(priors)


def parse_test_line(text: str) -> EvidenceLine | None:
    """`source [node] [rank] [@offset] | text`; None when it is not of that form."""
    matched = _TEST_LINE.match(text)
    if matched is None or matched["source"] not in tuple(Source):
        return None
    source, node, rank = Source(matched["source"]), matched["node"] or "", matched["rank"]
    return EvidenceLine(
        text=matched["text"],
        source=source,
        node=node,
        rank=None if rank is None else int(rank),
        at_s=None if matched["at"] is None else float(matched["at"]),
        stream=f"{source}/{node}/{rank or ''}",
    )


def parse_test_fact(text: str) -> Finding | None:
    """`kind [node] [rank] [#device] [[name=value, ...]] | text`; None when it is not of that form."""
    matched = _TEST_FACT.match(text)
    if matched is None:
        return None
    pairs = [pair.partition("=") for pair in (matched["captures"] or "").split(", ") if pair]
    if any(not middle for _, middle, _ in pairs):
        return None
    node, rank, device = matched["node"] or "", matched["rank"], matched["device"] or ""
    return Finding(
        finding_id=f"{matched['kind']}:{node}/{rank or ''}/{device}",
        kind=matched["kind"],
        role=Role.CAUSE,
        node=node,
        rank=None if rank is None else int(rank),
        device=device,
        process="" if rank is None else f"1{int(rank):03d}",
        captures={name: value for name, _, value in pairs},
        text=matched["text"],
        rule_id="test",
    )


def _rule(path: Path, row: Fields) -> CauseRule:
    rule_id = row.text("id")
    rule = CauseRule(
        rule_id=rule_id,
        attribution=row.choice("attribution", Attribution),
        cause=row.text("cause"),
        action=row.choice("action", Action),
        when=tuple(_weights(row, "when")),
        more=tuple(_weights(row, "more")),
        less=tuple(_weights(row, "less")),
        actions=tuple(_choices(row)),
        culprit=row.choice("culprit", CulpritKind) if row.has("culprit") else CulpritKind.PLACE,
        meaning=row.text("meaning"),
        advice=row.text("advice"),
        decide=row.text("decide"),
        near_miss=row.text("near_miss"),
        origin=row.text("source"),
        state=row.choice("state", RuleState) if row.has("state") else RuleState.ACTIVE,
        holds=tuple(_tests(row, "holds")),
        misses=tuple(_tests(row, "misses")),
        file=str(path),
        line=row.line,
    )
    row.end()
    if not rule_id.startswith(f"{rule.attribution}."):
        raise row.refused(f"id {rule_id!r} must begin with its attribution: {rule.attribution}.<slug>")
    if not rule.when or not rule.holds or not rule.misses:
        raise row.refused(f"{rule_id}: when, holds and misses must not be empty")
    for weight in rule.when:
        if weight.see.atoms[0].negated:
            raise row.refused(f"{rule_id}: {weight.see.text!r} begins with a negation, which is no anchor")
    return rule


def _weights(row: Fields, name: str) -> list[Weight]:
    weights: list[Weight] = []
    for each in row.rows(name):
        say = each.text("say") if each.has("say") else ""
        try:
            list(Formatter().parse(say))
        except ValueError as error:
            raise each.refused(f"say is no template: {error}") from error
        weights.append(Weight(see=_term(each), score=each.number("score", 0.0, SCORE_MAX), say=say))
        each.end()
    return weights


def _choices(row: Fields) -> list[ActionChoice]:
    choices: list[ActionChoice] = []
    for each in row.rows("actions"):
        choices.append(ActionChoice(see=_term(each), action=each.choice("action", Action)))
        each.end()
    return choices


def _tests(row: Fields, name: str) -> list[CauseTest]:
    tests: list[CauseTest] = []
    for each in row.rows(name):
        lines: list[EvidenceLine] = []
        for text in each.texts("lines") if each.has("lines") else ():
            line = parse_test_line(text)
            if line is None:
                raise each.refused(f"{text!r} is not: source [node] [rank] [@offset] | text")
            lines.append(line)
        facts: list[Finding] = []
        for text in each.texts("facts") if each.has("facts") else ():
            fact = parse_test_fact(text)
            if fact is None:
                raise each.refused(f"{text!r} is not: kind [node] [rank] [#device] [[name=value, ...]] | text")
            facts.append(fact)
        if not lines and not facts:
            raise each.refused(f"{name}: a test needs lines or facts")
        action = each.choice("action", Action) if each.has("action") else None
        tests.append(CauseTest(lines=tuple(lines), facts=tuple(facts), action=action, line=each.line))
        each.end()
    return tests


def _term(row: Fields) -> Term:
    text = row.text("see")
    try:
        return parse_term(text)
    except TermRefused as error:
        raise row.refused(str(error)) from error

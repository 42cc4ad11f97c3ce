"""Signatures from a YAML file, each problem with its file and line."""

from __future__ import annotations

from pathlib import Path

from fault_attribution.evidence_line import Source
from fault_attribution.finding import Role
from fault_attribution.signature import RuleState, Signature, SignatureExample
from service_kit.yaml_fields import Fields, read_lists, table_of

ID_CHARS_MAX = 128


def read_signatures(path: Path) -> tuple[Signature, ...]:
    """All signatures of a file, as written; whether a pattern compiles is seen when a matcher is built.

    Raises:
        PolicyRefused: with file, line and reason.
    """
    rows = read_lists(path, {"signatures"})["signatures"]
    return tuple(table_of(rows, lambda row: _signature(path, row), lambda signature: signature.signature_id).values())


def _signature(path: Path, row: Fields) -> Signature:
    signature_id = row.text("id")
    if len(signature_id) > ID_CHARS_MAX or "." not in signature_id:
        raise row.refused(f"id {signature_id!r} must be <family>.<slug>, at most {ID_CHARS_MAX} characters")
    tests = row.mapping("tests")
    matches = tuple(_examples(tests))
    misses = tests.texts("miss")
    tests.end()
    if not matches:
        raise row.refused(f"{signature_id}: tests.match must not be empty")
    signature = Signature(
        signature_id=signature_id,
        kind=row.text("find"),
        role=row.choice("role", Role),
        pattern=row.text("pattern"),
        sources=frozenset(_source(row, name) for name in row.texts("sources")) if row.has("sources") else frozenset(),
        sets=row.plain("set"),
        meaning=row.text("meaning"),
        origin=row.text("source"),
        overrides=frozenset(row.texts("overrides")) if row.has("overrides") else frozenset(),
        state=row.choice("state", RuleState) if row.has("state") else RuleState.ACTIVE,
        matches=matches,
        misses=misses,
        file=str(path),
        line=row.line,
    )
    row.end()
    return signature


def _examples(tests: Fields) -> list[SignatureExample]:
    examples = [SignatureExample(line=line) for line in (tests.texts("match") if tests.has("match") else ())]
    for captured in tests.rows("captures"):
        examples.append(SignatureExample(line=captured.text("line"), captures=captured.plain("gives")))
        captured.end()
    return examples


def _source(row: Fields, name: str) -> Source:
    try:
        return Source(name)
    except ValueError:
        raise row.refused(f"source {name!r} is not one of {', '.join(Source)}") from None

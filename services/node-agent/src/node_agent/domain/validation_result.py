"""What one check of a validation found, and what all of them together mean for the node: pass, fail, or unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fault_contracts.payload import Health, Reason

NAMED_MAX = 8
"""Findings that the sentence of a verdict names; the report has all."""


class ValidationVerdict(StrEnum):
    """What a validation ends with. Closed."""

    PASS = "pass"  # noqa: S105 - a verdict, not a secret
    FAIL = "fail"
    UNKNOWN = "unknown"
    """Something that had to be known could not be found out: not a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One line of the report.

    Attributes:
        check: slug of what was looked at, e.g. matmul, memory_pattern, all_reduce, pairs, ledger.
        subject: what it is about: a device, a member, a pair; empty for the node or the gang.
        rule_id: which rule decided.
        sentence: for people: what was seen, held against what.
        values: measured numbers, units last in their names.
        counts: False for a check that nobody asked for and that could not be done: it is shown and decides nothing.
    """

    check: str
    subject: str = ""
    health: Health
    rule_id: str
    sentence: str
    values: Mapping[str, float] = field(default_factory=dict)
    counts: bool = True


def verdict_of(results: Sequence[CheckResult]) -> tuple[ValidationVerdict, Reason]:
    """One bad check fails; else one unknown check leaves it open; only good ones pass. Nothing looked at is unknown."""
    counted = [result for result in results if result.counts]
    bad = [result for result in counted if result.health is Health.BAD]
    unknown = [result for result in counted if result.health is Health.UNKNOWN]
    if bad:
        return ValidationVerdict.FAIL, Reason(rule_id="validation.bad_check", sentence=_named(bad))
    if unknown:
        return ValidationVerdict.UNKNOWN, Reason(rule_id="validation.unknown_check", sentence=_named(unknown))
    if not counted:
        return ValidationVerdict.UNKNOWN, Reason(rule_id="validation.nothing_checked", sentence="nothing was checked")
    return ValidationVerdict.PASS, Reason(
        rule_id="validation.all_good", sentence=f"{len(counted)} checks, none of them bad or unknown"
    )


def _named(results: Sequence[CheckResult]) -> str:
    parts = [f"{r.check}{f' {r.subject}' if r.subject else ''}: {r.sentence}" for r in results[:NAMED_MAX]]
    if len(results) > NAMED_MAX:
        parts.append(f"and {len(results) - NAMED_MAX} more")
    return "; ".join(parts)[:2_000]

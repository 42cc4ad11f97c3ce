"""The report of a validation: as JSON for machines and for the record, as lines for people."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from fault_contracts.payload import LONG_TEXT_MAX, Health
from node_agent.application.validation_ports import Member
from node_agent.domain.validation_result import CheckResult, ValidationVerdict, verdict_of
from service_kit.foreign_text import printable

EXIT_CODES = {ValidationVerdict.PASS: 0, ValidationVerdict.FAIL: 1, ValidationVerdict.UNKNOWN: 3}


def report_of(
    *,
    node_id: str,
    results: Sequence[CheckResult],
    members: Sequence[Member],
    identities: Sequence[Mapping[str, Any]],
    drills: Sequence[str],
    began_at: datetime,
    ended_at: datetime,
) -> dict[str, Any]:
    """Everything that is known at the end, as plain data."""
    verdict, reason = verdict_of(results)
    return {
        "verdict": verdict.value,
        "rule_id": reason.rule_id,
        "reason": reason.sentence,
        "node_id": node_id,
        "began_at": began_at.isoformat(),
        "ended_at": ended_at.isoformat(),
        "drills": list(drills),
        "members": [asdict(member) for member in members],
        "devices": [dict(identity) for identity in identities],
        "checks": [line_of(result) for result in results],
    }


def line_of(result: CheckResult) -> dict[str, Any]:
    """One check as plain data."""
    return {
        "check": result.check,
        "subject": result.subject,
        "health": result.health.value,
        "counts": result.counts,
        "rule_id": result.rule_id,
        "sentence": result.sentence,
        "values": dict(result.values),
    }


def result_of(line: Mapping[str, Any], *, node_id: str) -> CheckResult:
    """A line that another node sent; its subject says which node it is about.

    Raises:
        ValueError: it is none.
    """
    try:
        subject = str(line["subject"])[:256]
        return CheckResult(
            check=str(line["check"])[:64],
            subject=f"{node_id} {subject}".strip(),
            health=Health(line["health"]),
            rule_id=str(line["rule_id"])[:128],
            sentence=str(line["sentence"])[:2_000],
            values={
                str(name)[:64]: float(value) for name, value in dict(line["values"]).items() if math.isfinite(value)
            },
            counts=bool(line["counts"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a line of a report: {error}") from error


def table_of(report: Mapping[str, Any]) -> Iterator[str]:
    """The report as lines for a terminal, bad ones first."""
    order = {"bad": 0, "unknown": 1, "ok": 2}
    checks = sorted(report["checks"], key=lambda check: (not check["counts"], order[check["health"]]))
    rows = [("HEALTH", "CHECK", "ABOUT", "WHAT WAS SEEN")]
    rows += [
        (c["health"] if c["counts"] else f"({c['health']})", c["check"], c["subject"] or "-", c["sentence"])
        for c in checks
    ]
    # A foreign text must not move the cursor or make a second line.
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(3)]
    for row in shown:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
    if report["drills"]:
        yield f"this was a drill: {', '.join(report['drills'])}"
    yield f"{report['verdict']}: {report['reason']}"


def short_json(report: Mapping[str, Any]) -> str:
    """The report in the room that a message has for it: good lines go first when it is too long."""
    checks = list(report["checks"])
    while True:
        text = json.dumps({**report, "checks": checks, "left_out": len(report["checks"]) - len(checks)})
        if len(text) <= LONG_TEXT_MAX or not checks:
            return text[:LONG_TEXT_MAX]
        good = [number for number, check in enumerate(checks) if check["health"] == "ok"]
        del checks[good[-1] if good else -1]


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)

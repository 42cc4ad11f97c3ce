"""Tells what the watch over the logs found, and keeps its counts. Used by watch_logs only.

Whoever is told may fail; that is counted here and stops neither the other findings nor the output they came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

from node_agent.application.log_ports import (
    EXCERPT_CHARS_MAX,
    PATH_CHARS_MAX,
    LogCheckpoint,
    LogFinding,
    LogMonitorHealth,
    LogProgress,
    LogReports,
)
from node_agent.application.rank_log import Evaluator
from node_agent.domain.log_rule import RuleKind
from node_agent.domain.log_state import LineSeen, LogVerdict
from service_kit.ports import Clock

STEP_DIGITS_MAX = 18
"""A step fits a signed 64-bit integer."""

_Report = TypeVar("_Report")


@dataclass(slots=True, kw_only=True)
class LogTally:
    """Running counts; what they mean is said in LogMonitorHealth."""

    refused_rules: int = 0
    lines: int = 0
    bytes: int = 0
    hits: int = 0
    findings: int = 0
    cut_lines: int = 0
    unusable_values: int = 0
    dropped_bytes: int = 0
    errors: int = 0
    last_error: str = ""
    busy_s: float = 0.0
    lag_s_max: float = 0.0


class LogTeller:
    """Makes reports of verdicts and captures."""

    def __init__(self, *, clock: Clock, reports: LogReports) -> None:
        self._clock = clock
        self._reports = reports
        self.tally = LogTally()

    def tell(self, evaluator: Evaluator, verdict: LogVerdict, *, by_line: bool) -> None:
        """Pass on a verdict."""
        self.tally.findings += 1
        finding = LogFinding(
            rule=evaluator.rule.name,
            rule_id=verdict.rule_id,
            action=evaluator.rule.action,
            rank=evaluator.rank,
            stream=evaluator.stream if by_line else None,
            state=verdict.state,
            sentence=verdict.sentence,
            value=verdict.value,
            excerpt=evaluator.line[:EXCERPT_CHARS_MAX].decode(errors="backslashreplace")[:EXCERPT_CHARS_MAX],
            offset=evaluator.offset,
            suppressed=verdict.suppressed,
            observed_at=self._clock.now(),
        )
        self._report(self._reports.on_log_finding, finding, verdict.rule_id)

    def capture(self, evaluator: Evaluator, seen: LineSeen) -> None:
        """Pass on the step of a progress or checkpoint line."""
        rule, rank = evaluator.rule, evaluator.rank
        step = _step_of(seen.value)
        if step is None or rank is None:
            self.tally.unusable_values += 1
        elif rule.kind is RuleKind.PROGRESS:
            progress = LogProgress(rule=rule.name, rank=rank, step=step)
            self._report(self._reports.on_log_progress, progress, rule.name)
        else:
            path = (seen.path or b"").decode(errors="backslashreplace")[:PATH_CHARS_MAX]
            checkpoint = LogCheckpoint(rule=rule.name, rank=rank, step=step, path=path, kind=rule.checkpoint_kind)
            self._report(self._reports.on_log_checkpoint, checkpoint, rule.name)

    def fail(self, what: str) -> None:
        """Something went wrong that the watch survives."""
        self.tally.errors += 1
        self.tally.last_error = what[:EXCERPT_CHARS_MAX]

    def health(self, *, rules: int) -> LogMonitorHealth:
        """The counts as a value."""
        return LogMonitorHealth(rules=rules, **asdict(self.tally))

    def _report(self, call: Callable[[_Report], None], report: _Report, name: str) -> None:
        try:
            call(report)
        except Exception as error:  # noqa: BLE001 - the next lines must still be looked at
            self.fail(f"the report of {name} was not taken: {error!r}")


def _step_of(raw: bytes | None) -> int | None:
    """The captured step; None when it is no number a step can have."""
    return int(raw) if raw is not None and raw.isdigit() and len(raw) <= STEP_DIGITS_MAX else None

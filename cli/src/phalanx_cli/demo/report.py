"""The end of the demo: the table of what each phase cost, the verdicts against the truth, and whether all held."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from phalanx_cli.demo.judgement import FaultResult, ranks_words
from phalanx_cli.demo.weights import WeightsVerdict

PHASES = ("detect_s", "stop_s", "plan_s", "start_s", "first_step_s", "total_s")
_HEADS = ("detect", "stop", "plan", "start", "1st step", "total")
# Two lines, so that the table fits eighty columns.
_LAST_HEADS = ("since\nfault", "steps\nlost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything the demo found."""

    faults: tuple[FaultResult, ...]
    weights: tuple[WeightsVerdict, ...]
    """One for each job that comes to its end; empty when none was chosen."""
    problems: tuple[str, ...]
    """Of the run as a whole; each fault has its own."""
    took_s: float
    logs: Path

    @property
    def held(self) -> bool:
        """Whether everything went as it has to."""
        weights_hold = all(weights.identical is True for weights in self.weights)
        return weights_hold and not self.problems and not any(result.problems for result in self.faults)


def milliseconds(value_s: float | None) -> str:
    """A duration for the table; a phase that did not happen is a dash, never a zero."""
    return "–" if value_s is None else f"{value_s * 1000:.0f}"


def phase_table(results: tuple[FaultResult, ...]) -> Table:
    """What each phase cost, from the planner's journal."""
    table = _table("What each recovery cost, in milliseconds")
    table.add_column("fault", no_wrap=True)
    for head in (*_HEADS, *_LAST_HEADS):
        table.add_column(head, justify="right")
    for result in results:
        phases = result.phases
        table.add_row(
            str(result.fault),
            *(milliseconds(getattr(phases, name)) for name in PHASES),
            milliseconds(result.injected_to_resumed_s),
            "–" if phases.steps_lost is None else str(phases.steps_lost),
        )
    return table


def verdict_table(results: tuple[FaultResult, ...]) -> Table:
    """When each fault was seen, who was blamed for it and how it ended, held against what was injected."""
    table = _table("Found, against what was injected (seen: ms after it)", gap=0)
    table.add_column("fault", no_wrap=True)
    table.add_column("seen", justify="right")
    for head in ("suspect", "verdict", "right", "outcome"):
        table.add_column(head)
    for result in results:
        wrong = any(word in problem for problem in result.problems for word in ("verdict", "suspect"))
        table.add_row(
            str(result.fault),
            milliseconds(result.injected_to_seen_s),
            result.suspect,
            result.verdict,
            "no" if wrong else "yes",
            result.outcome,
        )
    return table


def _table(title: str, *, gap: int = 1) -> Table:
    """A gap of 0 still leaves one space between columns."""
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0))


def render(report: Report) -> RenderableType:
    """The whole end for a terminal or a file."""
    parts: list[RenderableType] = [Text(), phase_table(report.faults), Text(), verdict_table(report.faults), Text()]
    told = [
        f"{result.fault}: {ranks_words(result.replaced)}" for result in report.faults if result.replaced is not None
    ]
    if told:
        parts.append(Text(f"ranks with a new process after {'; '.join(told)}"))
    for weights in report.weights:
        answer = {True: "yes", False: "no", None: "unknown"}[weights.identical]
        parts.append(Text(f"{weights.job}: weights identical to the unfailed run: {answer} ({weights.sentence})"))
    problems = (*report.problems, *(f"{r.fault}: {problem}" for r in report.faults for problem in r.problems))
    parts.extend(Text(f"did not hold: {problem}", style="red") for problem in problems)
    parts.append(Text(f"logs: {report.logs}"))
    verdict = "everything held" if report.held else "not everything held"
    parts.append(Text(f"{verdict}; {report.took_s:.0f} s", style="bold green" if report.held else "bold red"))
    return Group(*parts)


def as_json(report: Report) -> str:
    """The same figures for programs."""
    return json.dumps(
        {
            "held": report.held,
            "took_s": round(report.took_s, 3),
            "logs": str(report.logs),
            "weights_identical": _all_identical(report.weights),
            "weights": [
                {"job": weights.job, "identical": weights.identical, "sha256": weights.digest}
                for weights in report.weights
            ],
            "problems": list(report.problems),
            "faults": [
                {
                    "fault": str(result.fault),
                    "injected": result.injected,
                    "suspect": result.suspect,
                    "verdict": result.verdict,
                    "truth": result.truth,
                    "reasons": list(result.reasons),
                    "outcome": result.outcome,
                    "phases": result.phases.model_dump(mode="json"),
                    "injected_to_seen_s": result.injected_to_seen_s,
                    "injected_to_resumed_s": result.injected_to_resumed_s,
                    "ranks_replaced": None if result.replaced is None else sorted(result.replaced),
                    "problems": list(result.problems),
                }
                for result in report.faults
            ],
        },
        indent=2,
    )


def _all_identical(weights: tuple[WeightsVerdict, ...]) -> bool | None:
    """False before unknown before true."""
    answers = {one.identical for one in weights}
    if False in answers:
        return False
    return None if None in answers or not answers else True

"""How long a step takes, from the steps that one node tells: the price of redone steps, and the measure of slow ones.

Advisory: it is kept with the record and is not worth a write of its own. After a planner died it is learnt anew from
the next steps; until then the pace of the generation before speaks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from fault_contracts.agent import StepReported

WINDOW_S = 30.0
"""Nodes tell a step at most once a second, so shorter windows say as much of the reporting as of the steps."""
WINDOW_STEPS = 10
"""A job with long steps gets a window that is longer instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Steps of one node in one generation. Its own clock alone is read, so that clocks need not agree.

    Attributes:
        first, first_at: the first step of the generation that was heard, and when the node told it.
        newest, newest_at: the last one.
        window, window_at: where the window began that may become the best one.
        best_s: seconds of a step in the best whole window of this run of the job.
        before_s: seconds of a step in the generation before.
    """

    node_id: str
    topology_version: int
    first: int
    first_at: datetime
    newest: int
    newest_at: datetime
    window: int
    window_at: datetime
    best_s: float | None = None
    before_s: float | None = None

    @property
    def step_s(self) -> float | None:
        """Seconds of a step, over the generation; None: nobody told two steps yet."""
        return _seconds_of_a_step(self.first, self.first_at, self.newest, self.newest_at) or self.before_s


def paced(pace: Pace | None, report: StepReported) -> Pace:
    """The pace with one more step heard. A step that is known, or another node's, changes nothing."""
    if pace is None or report.topology_version > pace.topology_version:
        return Pace(
            node_id=report.node_id,
            topology_version=report.topology_version,
            first=report.step,
            first_at=report.reported_at,
            newest=report.step,
            newest_at=report.reported_at,
            window=report.step,
            window_at=report.reported_at,
            best_s=None if pace is None else pace.best_s,
            before_s=None if pace is None else pace.step_s,
        )
    if report.node_id != pace.node_id or report.topology_version != pace.topology_version:
        return pace
    if report.step <= pace.newest or report.reported_at <= pace.newest_at:
        return pace
    pace = replace(pace, newest=report.step, newest_at=report.reported_at)
    elapsed_s = (pace.newest_at - pace.window_at).total_seconds()
    if elapsed_s < WINDOW_S or pace.newest - pace.window < WINDOW_STEPS:
        return pace
    here_s = elapsed_s / (pace.newest - pace.window)
    best_s = here_s if pace.best_s is None else min(pace.best_s, here_s)
    return replace(pace, best_s=best_s, window=pace.newest, window_at=pace.newest_at)


def _seconds_of_a_step(first: int, first_at: datetime, newest: int, newest_at: datetime) -> float | None:
    if newest <= first or newest_at <= first_at:
        return None
    return (newest_at - first_at).total_seconds() / (newest - first)

"""What a run gave: seconds by phase and cause, restarts, nodes; and means over seeds with their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

_T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 14: 2.145, 19: 2.093}
"""Student's t for 95 %, two-sided, by degrees of freedom; for those between, the next smaller is used."""
PHASES = ("detect", "restart", "wait", "blind", "person", "smaller", "lost_work", "checkpoint")

SEEDS_MAX = 1_000
"""Runs of one study: their means hardly move any more after some dozens."""


@dataclass(slots=True)
class CauseTally:
    """What faults of one cause cost."""

    faults: int = 0
    lost_s: float = 0.0
    node_days: float = 0.0


@dataclass(slots=True)
class Outcome:
    """One policy on one trace. Seconds are of the whole job; node-days of single nodes."""

    policy: str
    span_s: float
    productive_s: float = 0.0
    phases: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    causes: dict[str, CauseTally] = field(default_factory=dict)
    interruptions: int = 0
    restarts: int = 0
    swaps: int = 0
    persons: int = 0
    """How often a person was needed."""
    given_up: int = 0
    """How often the budget or the verdict ended the job."""
    node_days_lost: float = 0.0
    out_max: int = 0
    short_of_spares: int = 0
    shrunk: int = 0
    grown: int = 0
    """Planned stops to grow again; growing at a restart that happens anyway is not among them."""
    returns: int = 0
    watched: int = 0
    """Returns whose following 7 days lie within the run."""
    refaults: int = 0
    """Of these, followed by a fault of the node."""
    gate_found: int = 0
    breaker_refused: int = 0
    """How often the planner's circuit breaker opened, or stayed full."""
    listed: int = 0
    listed_readmitted: int = 0

    @property
    def ettr(self) -> float:
        """Effective training time ratio: training that was kept, of all time."""
        return self.productive_s / self.span_s

    @property
    def refault_share(self) -> float:
        """Of watched returns; 0 where there was none."""
        return self.refaults / self.watched if self.watched else 0.0

    def cause(self, name: str) -> CauseTally:
        """The tally of a cause."""
        return self.causes.setdefault(name, CauseTally())


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean over seeds, and half its 95 % interval; None: one seed tells nothing of it."""

    value: float
    half: float | None


def mean_of(values: Sequence[float]) -> Mean:
    """Mean and interval by Student's t."""
    if len(values) < 2:
        return Mean(value=fmean(values), half=None)
    freedom = len(values) - 1
    factor = 1.96 if freedom >= 100 else _T95[max(each for each in _T95 if each <= freedom)]
    return Mean(value=fmean(values), half=factor * stdev(values) / math.sqrt(len(values)))


FIGURES: dict[str, Callable[[Outcome], float]] = {
    "ettr": lambda run: run.ettr,
    "interruptions": lambda run: run.interruptions,
    "restarts": lambda run: run.restarts,
    "swaps": lambda run: run.swaps,
    "persons": lambda run: run.persons,
    "given_up": lambda run: run.given_up,
    "node_days_lost": lambda run: run.node_days_lost,
    "out_max": lambda run: run.out_max,
    "short_of_spares": lambda run: run.short_of_spares,
    "shrunk": lambda run: run.shrunk,
    "grown": lambda run: run.grown,
    "returns": lambda run: run.returns,
    "refault_share": lambda run: run.refault_share,
    "gate_found": lambda run: run.gate_found,
    "breaker_refused": lambda run: run.breaker_refused,
    "listed": lambda run: run.listed,
    "listed_readmitted": lambda run: run.listed_readmitted,
}


def summary(runs: Sequence[Outcome]) -> dict[str, Any]:
    """One policy over its seeds, as plain data."""
    causes = sorted({name for run in runs for name in run.causes})
    return {
        "policy": runs[0].policy,
        "seeds": len(runs),
        **{name: _plain(mean_of([figure(run) for run in runs])) for name, figure in FIGURES.items()},
        "lost_share": {name: fmean(run.phases[name] / run.span_s for run in runs) for name in PHASES},
        "causes": {
            name: {
                "faults": fmean(run.cause(name).faults for run in runs),
                "lost_s": fmean(run.cause(name).lost_s for run in runs),
                "node_days": fmean(run.cause(name).node_days for run in runs),
            }
            for name in causes
        },
    }


def _plain(mean: Mean) -> dict[str, float | None]:
    return {"mean": mean.value, "half95": mean.half}

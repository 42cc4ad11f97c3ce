"""How long a problem is tolerated, and what ends it. Values come from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fault_contracts.step_times import STRAGGLER_CHECK
from health_ingest.domain.ruling import Clears, Ruling, Weight
from health_ingest.domain.signal import RANK_CHECKS

WINDOW_S_MAX = 86_400.0
"""A day: whoever wants to tolerate a problem for longer wants to ignore the check."""
KEEP_S = 7 * WINDOW_S_MAX
"""A week. What was only recorded is looked at by people, who are away at week-ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionPolicy:
    """Limits of the condition machine.

    Attributes:
        tolerance_s: a problem that lasts longer is a failure; per check in `tolerance_s_by_check`.
        good_samples_min: so many good samples in a row clear a problem or a failure.
        sample_age_s_max: an older sample proves nothing about now and is not counted as good.
        at_once: checks whose first bad signal is a failure.
        judged: checks that others have weighed already (several windows, both ways): one good sample clears them, and
            they stay a problem however long they last, so that nothing acts on them.
        forget_after_s: a cleared condition, and that of an ended process, is kept this long, so that late copies of
            its signals are recognised.
        keep_s: as `forget_after_s`, for what was only recorded, and for what a reset ended: an agent that starts anew
            reads the kernel's log of the whole boot again, and must not raise it a second time.
        node_silent_s: a node that was not heard for so long is unknown; quiet on it proves nothing.
    """

    tolerance_s: float = 60.0
    tolerance_s_by_check: Mapping[str, float] = field(default_factory=dict)
    good_samples_min: int = 3
    sample_age_s_max: float = 120.0
    at_once: frozenset[str] = RANK_CHECKS
    judged: frozenset[str] = frozenset({STRAGGLER_CHECK})
    forget_after_s: float = 3_600.0
    keep_s: float = KEEP_S
    node_silent_s: float = 1_500.0

    def __post_init__(self) -> None:
        """Refuse values that would make the machine wrong.

        Raises:
            ValueError: with the name of the value.
        """
        windows = {"tolerance_s": self.tolerance_s, "sample_age_s_max": self.sample_age_s_max}
        windows |= {"node_silent_s": self.node_silent_s}
        windows |= {f"tolerance_s_by_check[{check}]": value for check, value in self.tolerance_s_by_check.items()}
        for name, value in windows.items():
            if not 0 < value <= WINDOW_S_MAX:
                raise ValueError(f"{name} is {value}; it must be above 0 and at most {WINDOW_S_MAX:.0f} s")
        if not 1 <= self.good_samples_min <= 1_000:
            raise ValueError(f"good_samples_min is {self.good_samples_min}; it must be 1 to 1000")
        # ack_wait 30 s x 5 deliveries: a shorter memory would take a redelivered signal for a new one.
        if not 150.0 < self.forget_after_s <= 30 * WINDOW_S_MAX:
            raise ValueError(f"forget_after_s is {self.forget_after_s}; it must be above 150 s and at most 30 days")
        both = self.at_once & set(self.tolerance_s_by_check)
        if both:
            raise ValueError(f"{sorted(both)} act at once and have a tolerance window: one of the two is a mistake")
        both = self.judged & (self.at_once | set(self.tolerance_s_by_check))
        if both:
            raise ValueError(f"{sorted(both)} never become failures; a tolerance window for them is a mistake")

    def ruling(self, check: str) -> Ruling:
        """What these limits say of a check that has no policy row: ranks, what was judged elsewhere, and the rest."""
        at_once = check in self.at_once
        return Ruling(
            weight=Weight.FAILURE if at_once else Weight.PROBLEM,
            fault_class=check,
            clears=Clears.GOOD_SAMPLES,
            window_s=None if at_once or check in self.judged else self.tolerance_s_of(check),
            good_samples_min=1 if check in self.judged else self.good_samples_min,
            rule_id="condition.at_once" if at_once else "condition.first_bad",
            sentence="",
        )

    def tolerance_s_of(self, check: str) -> float:
        """Tolerance window that the settings give a check."""
        return self.tolerance_s_by_check.get(check, self.tolerance_s)

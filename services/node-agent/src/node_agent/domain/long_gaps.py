"""Long phases that nobody declared, learned from where they happened: every 1,000 steps an evaluation, and the like.

A gap is remembered with the step it followed. Two gaps at equal distance predict the next one, so that training may
pause there again, while a rank that stops at any other step is still found at once.
"""

from __future__ import annotations

from dataclasses import dataclass

GAPS_MAX = 16
"""Gaps remembered: enough for two or three series (evaluation, checkpoint, log upload) side by side."""
STEP_TOLERANCE_PART = 50
"""A predicted place is right within 1/50 of the distance: steps that are reported in bundles hide the exact one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongGap:
    """One pause.

    Attributes:
        after_step: the last step that was finished before it.
        duration_s: until the next finished step.
    """

    after_step: int
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LongGaps:
    """The newest pauses, oldest first."""

    recent: tuple[LongGap, ...] = ()

    def after(self, gap: LongGap) -> LongGaps:
        """With one more pause. A step counter that went back (a restart) forgets the pauses it will come to again."""
        earlier = tuple(known for known in self.recent if known.after_step < gap.after_step)
        return LongGaps(recent=(*earlier, gap)[-GAPS_MAX:])

    def expected_s(self, step: int) -> float | None:
        """The longest pause that is due after this step; None when none is.

        Due: two remembered pauses a < b, and b + (b - a) is this step.
        """
        found: float | None = None
        for index, earlier in enumerate(self.recent):
            for later in self.recent[index + 1 :]:
                distance = later.after_step - earlier.after_step
                if abs(later.after_step + distance - step) <= max(1, distance // STEP_TOLERANCE_PART):
                    longer_s = max(earlier.duration_s, later.duration_s)
                    found = longer_s if found is None else max(found, longer_s)
        return found

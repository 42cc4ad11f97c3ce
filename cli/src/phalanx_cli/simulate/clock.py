"""Where the time of one job goes: training that is kept, work that is lost, waits that the end of the run cuts off."""

from __future__ import annotations

from enum import StrEnum

from phalanx_cli.simulate.costs import Costs
from phalanx_cli.simulate.outcome import Outcome

NEVER_S = float("inf")


class Look(StrEnum):
    """A time at which the gang's size is looked at."""

    SHRINK = "shrink"
    """It has waited for a node as long as its policy says."""
    GROW = "grow"
    """It may be larger than it is: a node is free, its snooze is over, or the checkpoint is there that it waits for."""


class Clock:
    """Spans of training, closed one after another.

    Attributes:
        up_s: the job trains from here on; in the future while it recovers.
        waits_s: it waits for machines from here on; what comes before is counted with its fault.
        share: of the full speed, while the gang has fewer nodes than it was started with.
    """

    def __init__(self, costs: Costs, out: Outcome) -> None:
        self._block_s = costs.checkpoint_block_s
        self._between_s = costs.checkpoint_s
        self._out = out
        self.cycle_s = costs.checkpoint_s + costs.checkpoint_block_s
        self.up_s = 0.0
        self.waits_s = 0.0
        self.share = 1.0

    def close(self, now_s: float, *, ends: bool = False) -> float:
        """End a span: whole checkpoints are kept, what came after the last is lost. Returns the seconds lost."""
        span_s = now_s - self.up_s
        if span_s <= 0:
            if ends:
                self._overrun(-span_s)
            return 0.0
        kept = int(span_s / self.cycle_s + 1e-9)
        lost_s = max(0.0, span_s - kept * self.cycle_s)
        trained_s = kept * self._between_s + (lost_s if ends else 0.0)
        self._out.productive_s += trained_s * self.share
        self._out.phases["smaller"] += trained_s * (1.0 - self.share)
        self._out.phases["checkpoint"] += kept * self._block_s
        if not ends:
            self._out.phases["lost_work"] += lost_s
            return lost_s
        return 0.0

    def _overrun(self, beyond_s: float) -> None:
        """A recovery that the end of the run cuts off counts until there."""
        end_s = self._out.span_s
        if beyond_s == NEVER_S:
            self._out.phases["wait"] += max(0.0, end_s - self.waits_s)
            beyond_s = max(0.0, self.waits_s - end_s)
        self._out.phases["restart"] -= beyond_s

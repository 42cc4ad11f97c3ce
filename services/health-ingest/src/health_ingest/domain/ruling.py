"""What a policy says about one bad signal: how grave it is, how long it is tolerated, whom it speaks against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fault_contracts.faults import Action, Attribution


class Weight(StrEnum):
    """How grave a signal is, from light to heavy."""

    RECORD = "record"
    """Shown and counted; raises nothing."""
    PROBLEM = "problem"
    """Blocks new work; becomes a failure when it lasts longer than its window."""
    FAILURE = "failure"
    """Acted on at once."""


class Clears(StrEnum):
    """What ends a condition."""

    GOOD_SAMPLES = "good_samples"
    """Fresh good samples in a row: for whatever is measured again and again."""
    QUIET = "quiet"
    """No bad signal for `quiet_s`: for events, which have no good samples."""
    RESET = "reset"
    """A new boot, a reset of the device, or the driver's word that it wants nothing any more."""


WEIGHTS = tuple(Weight)
"""From light to heavy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The policy's answer.

    Attributes:
        fault_class: what duplicates are folded by, together with the device: one condition a class, whatever the text.
        window_s: how long a problem is tolerated; None: as long as it lasts.
        quiet_s: with Clears.QUIET: so long without a bad signal ends it.
        good_samples_min: with Clears.GOOD_SAMPLES: so many in a row; None: as the settings say.
        origin: whose fault a single, uncorroborated signal of this kind is: a prior, not a verdict.
        sympathetic: a consequence of something else, never a root cause.
        rule_id: the policy's row, e.g. xid.79, check.disk_space.
        sentence: why, for people.
        source: where the row comes from (URL, section).
    """

    weight: Weight
    fault_class: str
    clears: Clears
    window_s: float | None = None
    quiet_s: float | None = None
    good_samples_min: int | None = None
    origin: Attribution = Attribution.UNKNOWN
    action: Action = Action.WAIT_OR_IGNORE
    driver_action: str = ""
    sympathetic: bool = False
    rule_id: str
    sentence: str
    source: str = ""

    def outweighs(self, other: Ruling | None) -> bool:
        """Whether this one says more: graver, or as grave with the driver's own word."""
        if other is None or self.weight is not other.weight:
            return other is None or WEIGHTS.index(self.weight) > WEIGHTS.index(other.weight)
        return bool(self.driver_action) and not other.driver_action

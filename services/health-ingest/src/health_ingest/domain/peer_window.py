"""Several sweeps of one device → whether it is said to be an outlier. One sweep proves nothing: fans lag behind load.

The row is shared by all replicas and may be lost; it is judged anew from what is there. So nothing is remembered of
what was said before: a device that stands out is named in each sweep, and one that is well again is said to be so
while its row still shows a bad sweep, and once when a row has just been filled (a row that was lost may have had one).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from health_ingest.domain.peer_outlier import Verdict


class Standing(StrEnum):
    """What is to be said of a device now."""

    STANDS_OUT = "stands_out"
    WELL = "well"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPolicy:
    """So many outlying sweeps of the newest ones name a device, and so many ordinary ones in a row end it.

    Three of five at 30 s a sweep: an outlier is named after a minute, a single odd sweep never.
    """

    sweeps: int = 3
    sweeps_of: int = 5

    def __post_init__(self) -> None:
        """Refuse a window that cannot be filled.

        Raises:
            ValueError: with the values.
        """
        if not 1 <= self.sweeps <= self.sweeps_of <= 100:
            raise ValueError(f"{self.sweeps} of {self.sweeps_of} sweeps: give 1 <= sweeps <= sweeps_of <= 100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One sweep in a row.

    Attributes:
        sweep_id: a copy of it is the same sweep.
    """

    sweep_id: str
    verdict: Verdict

    def to_text(self) -> str:
        """As it is kept."""
        return f"{self.verdict} {self.sweep_id}"


def place_from(text: str) -> Place:
    """Inverse of `Place.to_text`. What is not one is an unknown sweep: it may be of another version."""
    word, _, sweep_id = text.partition(" ")
    known = word in set(Verdict)
    return Place(sweep_id=sweep_id if known else text, verdict=Verdict(word) if known else Verdict.UNKNOWN)


def judge(row: Sequence[Place], policy: WindowPolicy) -> Standing:
    """What the newest sweeps say, oldest first. An unknown sweep takes a place and says nothing for either side."""
    once = {place.sweep_id: place.verdict for place in row}
    newest = list(once.values())[-policy.sweeps_of :]
    if not newest:
        return Standing.NOTHING
    outliers = sum(verdict is Verdict.OUTLIER for verdict in newest)
    if newest[-1] is Verdict.OUTLIER:
        return Standing.STANDS_OUT if outliers >= policy.sweeps else Standing.NOTHING
    last = newest[-policy.sweeps :]
    if len(last) < policy.sweeps or any(verdict is not Verdict.ORDINARY for verdict in last):
        return Standing.NOTHING
    just_well = len(newest) == policy.sweeps or newest[-policy.sweeps - 1] is not Verdict.ORDINARY
    return Standing.WELL if outliers or just_well else Standing.NOTHING

"""One device against its peers in one sweep: how far off it is, and whether that is out of the ordinary.

Robust on purpose: median and median absolute deviation of the peers, the device itself left out, so that neither it nor
a second sick one moves the yardstick. A gap counts when it is large in itself and large for this group. Devices under
another load are no peers; with too few peers the answer is unknown, never ok.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

MAD_TO_SIGMA = 1.4826
"""A median absolute deviation times this is a standard deviation, for normal noise (1 / 0.6745)."""
SIGMAS = 3.5
"""From which a value is an outlier: Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993), modified z-score;
NIST/SEMATECH e-Handbook 1.3.5.17."""
NEAR_PART = 0.8
"""Of the limit. Between this and the limit a device is neither an outlier nor well again, so that it does not flap."""


class Side(StrEnum):
    """On which side of its peers a device is sick."""

    ABOVE = "above"
    BELOW = "below"


class Verdict(StrEnum):
    """Of one device in one sweep."""

    OUTLIER = "outlier"
    NEAR = "near"
    ORDINARY = "ordinary"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What counts as out of the ordinary for one quantity.

    Attributes:
        check: of the signal.
        quantity: for the sentence, e.g. `SM clock`.
        gap_min: in the quantity's unit: smaller gaps never count, however alike the peers are.
        gap_ratio_min: the same as a part of the peers' median.
        peers_min: with fewer the answer is unknown. Three: of two, one sick one is half of the yardstick.
        utilisation_gap_pct_max: peers are at most so many points apart; None: load does not matter.
        utilisation_pct_min: below it neither the device nor a peer is compared.
        power_ratio_max: of the larger to the smaller power; None: power does not matter.
    """

    check: str
    quantity: str
    unit: str
    side: Side
    gap_min: float = 0.0
    gap_ratio_min: float = 0.0
    peers_min: int = 3
    utilisation_gap_pct_max: float | None = None
    utilisation_pct_min: float = 0.0
    power_ratio_max: float | None = None

    def __post_init__(self) -> None:
        """Refuse a yardstick by which everything is an outlier.

        Raises:
            ValueError: with the name of the value.
        """
        if self.gap_min <= 0 and self.gap_ratio_min <= 0:
            raise ValueError(f"{self.check}: give gap_min or gap_ratio_min; without a gap half of all are outliers")
        if self.peers_min < 2:
            raise ValueError(f"{self.check}: peers_min is {self.peers_min}; against one peer nobody knows who is sick")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One value of one device, and the load under which it was measured. None: it does not say."""

    node_id: str
    device_id: str
    value: float
    utilisation_pct: float | None = None
    power_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found.

    Attributes:
        peers: devices that it was held against.
        gap: to the peers' median, positive on the sick side; None with too few peers.
        limit: the gap from which it is an outlier.
    """

    verdict: Verdict
    peers: int
    median: float | None = None
    gap: float | None = None
    limit: float | None = None
    sentence: str


def compare(own: Measured, others: Iterable[Measured], yardstick: Yardstick, *, among: str) -> Comparison:
    """Hold one device against the others.

    Args:
        own: the device.
        others: of the same model; the device itself may be among them and is left out.
        yardstick: of the quantity.
        among: who the others are, for the sentence: `of gang llama`, `of the same node`.
    """
    values = [
        other.value
        for other in others
        if (other.node_id, other.device_id) != (own.node_id, own.device_id) and _alike(own, other, yardstick)
    ]
    if len(values) < yardstick.peers_min:
        return Comparison(
            verdict=Verdict.UNKNOWN,
            peers=len(values),
            sentence=f"{len(values)} devices {among} are under similar load; {yardstick.peers_min} are needed",
        )
    median = statistics.median(values)
    spread = MAD_TO_SIGMA * statistics.median(abs(value - median) for value in values)
    unit = yardstick.unit
    gap = own.value - median if yardstick.side is Side.ABOVE else median - own.value
    limit = max(yardstick.gap_min, yardstick.gap_ratio_min * abs(median), SIGMAS * spread)
    return Comparison(
        verdict=_verdict(gap, limit),
        peers=len(values),
        median=median,
        gap=gap,
        limit=limit,
        sentence=(
            f"{yardstick.quantity} is {own.value:.4g} {unit}, {abs(gap):.4g} {unit} {_direction(gap, yardstick.side)} "
            f"the median {median:.4g} {unit} of {len(values)} peers {among} under similar load; "
            f"from {limit:.4g} {unit} on it stands out"
        ),
    )


def _verdict(gap: float, limit: float) -> Verdict:
    if gap >= limit:
        return Verdict.OUTLIER
    return Verdict.NEAR if gap >= NEAR_PART * limit else Verdict.ORDINARY


def _direction(gap: float, side: Side) -> str:
    above = gap >= 0 if side is Side.ABOVE else gap < 0
    return "above" if above else "below"


def _alike(own: Measured, other: Measured, yardstick: Yardstick) -> bool:
    """Under similar load. A device that does not tell its utilisation is not compared where that matters."""
    if yardstick.utilisation_gap_pct_max is not None:
        if own.utilisation_pct is None or other.utilisation_pct is None:
            return False
        if min(own.utilisation_pct, other.utilisation_pct) < yardstick.utilisation_pct_min:
            return False
        if abs(own.utilisation_pct - other.utilisation_pct) > yardstick.utilisation_gap_pct_max:
            return False
    if yardstick.power_ratio_max is not None and own.power_w is not None and other.power_w is not None:
        low, high = sorted((own.power_w, other.power_w))
        return high <= yardstick.power_ratio_max * low
    return True

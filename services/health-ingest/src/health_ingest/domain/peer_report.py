"""What a node measured → the values that can be compared, each with its yardstick and its kind of peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fault_contracts.health import Component
from fault_contracts.measures import (
    GPU_CLOCK_OUTLIER,
    GPU_TEMPERATURE_OUTLIER,
    LINK_SLOW,
    GpuMeasures,
    LinkKind,
    MeasuresReported,
)
from health_ingest.domain.peer_outlier import Measured, Side, Yardstick

UTILISATION_GAP_PCT_MAX = 15.0
"""GPUs of one gang at work are within a few points of each other; one that waits is far below."""
POWER_RATIO_MAX = 1.3
"""Heat follows power. For clocks it does not count: a GPU that is throttled draws less, and must not lose its peers."""
CLOCK_UTILISATION_PCT_MIN = 50.0
"""An idle GPU lowers its clock at will."""
CLOCK_GAP_RATIO = 0.10
"""GPUs of one model at work differ by a few percent of clock (silicon, power limit)."""
LINK_GAP_RATIO = 0.05
"""Rates are negotiated in steps: half the lanes or a generation less is half; one of 18 NVLinks less is 5.6 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPolicy:
    """The yardsticks.

    Attributes:
        temperature_gap_c_min: a GPU this much hotter than its peers sets the pace of its gang (10-15 °C).
    """

    temperature_gap_c_min: float = 10.0
    clock_gap_ratio_min: float = CLOCK_GAP_RATIO
    link_gap_ratio_min: float = LINK_GAP_RATIO
    peers_min: int = 3
    yardsticks: dict[str, Yardstick] = field(init=False)

    def __post_init__(self) -> None:
        """Make the yardsticks; they refuse what cannot be."""
        made = (
            Yardstick(
                check=GPU_TEMPERATURE_OUTLIER,
                quantity="temperature",
                unit="°C",
                side=Side.ABOVE,
                gap_min=self.temperature_gap_c_min,
                peers_min=self.peers_min,
                utilisation_gap_pct_max=UTILISATION_GAP_PCT_MAX,
                power_ratio_max=POWER_RATIO_MAX,
            ),
            Yardstick(
                check=GPU_CLOCK_OUTLIER,
                quantity="SM clock",
                unit="MHz",
                side=Side.BELOW,
                gap_ratio_min=self.clock_gap_ratio_min,
                peers_min=self.peers_min,
                utilisation_gap_pct_max=UTILISATION_GAP_PCT_MAX,
                utilisation_pct_min=CLOCK_UTILISATION_PCT_MIN,
            ),
            Yardstick(
                check=LINK_SLOW,
                quantity="link rate",
                unit="Gbit/s",
                side=Side.BELOW,
                gap_ratio_min=self.link_gap_ratio_min,
                peers_min=self.peers_min,
            ),
        )
        object.__setattr__(self, "yardsticks", {each.check: each for each in made})


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparable:
    """One value and what it is compared with: values of the same check, kind and model."""

    check: str
    component: Component
    component_id: str
    kind: str
    model: str
    measured: Measured

    @property
    def peers_key(self) -> tuple[str, str, str]:
        """Equal for peers."""
        return (self.check, self.kind, self.model)


def comparables(report: MeasuresReported) -> Iterator[Comparable]:
    """All values of a report. What a device does not say is left out: it is unknown."""
    for gpu in report.gpus:
        yield from _of_gpu(report.node_id, gpu)
    for link in report.links:
        if not link.loaded:
            continue
        of_nic = link.kind in (LinkKind.NIC, LinkKind.OTHER)
        yield Comparable(
            check=LINK_SLOW,
            component=Component.NIC if of_nic else Component.GPU,
            # A GPU has two kinds of links, and each is a condition of its own.
            component_id=link.component_id if of_nic else f"{link.component_id}/{link.kind}",
            kind=link.kind,
            model=link.model,
            measured=Measured(
                node_id=report.node_id, device_id=f"{link.component_id}/{link.kind}", value=link.rate_gbps
            ),
        )


def by_peers(reports: Sequence[MeasuresReported]) -> dict[tuple[str, str, str], list[Measured]]:
    """The values of several nodes, those that can be compared together."""
    found: dict[tuple[str, str, str], list[Measured]] = {}
    for report in reports:
        for each in comparables(report):
            found.setdefault(each.peers_key, []).append(each.measured)
    return found


def _of_gpu(node_id: str, gpu: GpuMeasures) -> Iterator[Comparable]:
    values = {GPU_TEMPERATURE_OUTLIER: gpu.temperature_c, GPU_CLOCK_OUTLIER: gpu.sm_clock_mhz}
    for check, value in values.items():
        if value is None:
            continue
        yield Comparable(
            check=check,
            component=Component.GPU,
            component_id=gpu.gpu_uuid,
            kind="gpu",
            model=gpu.model,
            measured=Measured(
                node_id=node_id,
                device_id=gpu.gpu_uuid,
                value=value,
                utilisation_pct=gpu.utilisation_pct,
                power_w=gpu.power_w,
            ),
        )

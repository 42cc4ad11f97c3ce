"""What the devices of a node measure, sweep by sweep, so that they can be held against their peers. Key: node_id.

Not stored: sweeps leave out what was ok, but a comparison needs the numbers of those who are well; and an old number
says nothing about now. A sweep that is lost is unknown.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from fault_contracts.payload import At, Name, Payload

GPU_TEMPERATURE_OUTLIER = "gpu_temperature_outlier"
GPU_CLOCK_OUTLIER = "gpu_clock_outlier"
LINK_SLOW = "link_slow"
"""The checks of what is found by these numbers. Component gpu or nic, component_id its uuid or name."""

GPUS_MAX = 128
LINKS_MAX = 256
"""Of one node: 16 GPUs in 7 slices each, and their adapters; some 40 KB a message."""


class LinkKind(StrEnum):
    """What connects a device. Open: an unknown member reads as `other` and is compared with its own kind only."""

    PCIE = "pcie"
    NVLINK = "nvlink"
    NIC = "nic"
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> LinkKind | None:
        return cls.OTHER if isinstance(value, str) else None


class GpuMeasures(Payload):
    """One GPU at one moment. None: it does not say."""

    gpu_uuid: Name
    model: str = Field(default="", max_length=256)
    """Only GPUs of one model are peers; empty: the driver did not tell, and such GPUs are peers of each other."""
    temperature_c: float | None = Field(default=None, ge=-50, le=250)
    power_w: float | None = Field(default=None, ge=0)
    utilisation_pct: float | None = Field(default=None, ge=0, le=100)
    sm_clock_mhz: float | None = Field(default=None, ge=0)


class LinkMeasures(Payload):
    """The rate that one link has negotiated, or that all lanes and links of one kind of a device have together."""

    kind: LinkKind
    component_id: Name
    """gpu_uuid, or name of the adapter."""
    model: str = Field(default="", max_length=256)
    rate_gbps: float = Field(ge=0)
    """Gbit/s."""
    loaded: bool = True
    """False: it may be slow because nothing is to be carried (PCIe slows down then); it is compared with nothing."""


class MeasuresReported(Payload):
    """One sweep of one node."""

    node_id: Name
    instance_id: Name
    """This life of the agent."""
    sweep: int = Field(ge=0)
    """Counts the reports of this life."""
    gpus: tuple[GpuMeasures, ...] = Field(default=(), max_length=GPUS_MAX)
    links: tuple[LinkMeasures, ...] = Field(default=(), max_length=LINKS_MAX)
    measured_at: At

"""The PCIe link of a GPU: width and generation against what device and slot can do, and replays.

Sources: nvml.h, nvmlDeviceGetMaxPcieLinkWidth (the most that this GPU in this system can have); the generation drops on
an idle GPU to save power and says something under load only. Replays: DCGM_LIMIT_MAX_PCIREPLAY_RATE of DCGM's
dcgm_gpu_hardware_limits.h, "8 replays per minute is the maximum recommended by RM".
"""

from __future__ import annotations

from collections.abc import Iterator

from node_agent.domain.gpu_heat_health import IDLE
from node_agent.domain.gpu_look import GpuLook, health_of
from node_agent.domain.observation import Observation

COUNTERS = ("pcie_replay",)
REPLAYS_PER_MINUTE_MAX = 8.0
BUSY_PERCENT = 10
"""Utilisation from which a GPU that is not idle counts as under load."""


def pcie_health(look: GpuLook) -> Iterator[Observation]:
    """Every check of the PCIe link."""
    yield from _width(look)
    yield from _generation(look)
    yield from _replays(look)


def generation_is_low(look: GpuLook) -> bool:
    """Under load, and below the maximum, now."""
    now, most = look.number("pcie_generation"), look.number("pcie_generation_max")
    return under_load(look) and now is not None and most is not None and now < most


def under_load(look: GpuLook) -> bool:
    """The GPU computes; unknown counts as no."""
    reasons, busy = look.number("clock_reasons"), look.number("utilization_percent")
    return reasons is not None and not reasons & IDLE and busy is not None and busy >= BUSY_PERCENT


def _width(look: GpuLook) -> Iterator[Observation]:
    now, most = look.number("pcie_width"), look.number("pcie_width_max")
    yield from look.unknown("gpu_pcie_width", "pcie_width", "pcie_width_max")
    if now is None or most is None:
        return
    values = {"width": now, "width_max": most}
    yield look.tell("gpu_pcie_width", health_of(now < most), f"{now} of {most} PCIe lanes are in use", values=values)


def _generation(look: GpuLook) -> Iterator[Observation]:
    """Bad at the second full look in a row: a GPU that begins to work needs a moment to speed up."""
    now, most = look.number("pcie_generation"), look.number("pcie_generation_max")
    yield from look.unknown("gpu_pcie_generation", "pcie_generation", "pcie_generation_max")
    if now is None or most is None:
        return
    bad = generation_is_low(look) and look.history.generation_low
    state = "under load" if under_load(look) else "not under load, where less than the maximum is normal"
    values = {"generation": now, "generation_max": most}
    detail = f"PCIe generation {now} of {most}, {state}"
    yield look.tell("gpu_pcie_generation", health_of(bad), detail, values=values)


def _replays(look: GpuLook) -> Iterator[Observation]:
    total, rate_s = look.number("pcie_replay"), look.growth.per_s("pcie_replay")
    yield from look.unknown("gpu_pcie_replay", "pcie_replay")
    if total is None:
        return
    per_minute = None if rate_s is None else rate_s * 60
    bad = per_minute is not None and per_minute > REPLAYS_PER_MINUTE_MAX
    speed = "" if per_minute is None else f", {per_minute:.1f} a minute since the last look"
    detail = f"{total} PCIe replays{speed}; up to {REPLAYS_PER_MINUTE_MAX:.0f} a minute are accepted"
    values = {"replays": total, "per_minute": per_minute}
    yield look.tell("gpu_pcie_replay", health_of(bad), detail, values=values)

"""Heat and power of a GPU: temperatures against the board's own limits, and why clocks are held down.

Sources: nvml.h, nvmlTemperatureThresholds_t (slowdown: hardware begins to slow the clocks; memory maximum: above it the
memory is no longer within its specification), nvmlDeviceGetMarginTemperature (distance to the slowdown limit), and
nvmlClocksEventReasons. That a GPU is hotter than its peers is judged where the peers are known, not here.
"""

from __future__ import annotations

from collections.abc import Iterator

from fault_contracts.payload import Health
from node_agent.domain.gpu_look import GpuLook, health_of
from node_agent.domain.observation import Observation

IDLE, APPLICATION, POWER_CAP = 0x1, 0x2, 0x4
HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
"""Bits of the clock event reasons. Idle, application clocks and the power cap are how a healthy GPU works."""
SOFTWARE_THERMAL_S = 60.0
"""Software slows the clocks for moments on every warm machine; for two full looks without a break it is a state."""


def heat_health(look: GpuLook) -> Iterator[Observation]:
    """Every check of heat and power that this GPU has."""
    yield from _temperature(look)
    yield from _memory_temperature(look)
    yield from _clocks(look)
    yield from _power(look)


def slowed_by_software(look: GpuLook) -> bool:
    """Whether software holds the clocks down because of heat, now."""
    return bool((look.number("clock_reasons") or 0) & SW_THERMAL)


def _temperature(look: GpuLook) -> Iterator[Observation]:
    celsius, slowdown, margin = look.number("temperature_c"), look.number("slowdown_c"), look.number("margin_c")
    yield from look.unknown("gpu_temperature", "temperature_c")
    if celsius is None:
        return
    hot = (slowdown is not None and celsius >= slowdown) or (margin is not None and margin <= 0)
    limit = f"; it slows down at {slowdown} °C" if slowdown is not None else ""
    left = f"; {margin} °C to its limit" if margin is not None else ""
    values = {
        "temperature_c": celsius,
        "slowdown_c": slowdown,
        "shutdown_c": look.number("shutdown_c"),
        "margin_c": margin,
        "power_w": _watts(look, "power_mw"),
        "power_limit_w": _watts(look, "power_limit_mw"),
        "utilization_percent": look.number("utilization_percent"),
        "sm_clock_mhz": look.number("sm_clock_mhz"),
    }
    yield look.tell("gpu_temperature", health_of(hot), f"{celsius} °C{limit}{left}", values=values)


def _memory_temperature(look: GpuLook) -> Iterator[Observation]:
    celsius, limit = look.number("memory_temperature_c"), look.number("memory_max_c")
    yield from look.unknown("gpu_memory_temperature", "memory_temperature_c")
    if celsius is None:
        return
    hot = limit is not None and celsius >= limit
    held_against = f"; its limit is {limit} °C" if limit is not None else ""
    values = {"temperature_c": celsius, "limit_c": limit}
    yield look.tell("gpu_memory_temperature", health_of(hot), f"memory at {celsius} °C{held_against}", values=values)


def _clocks(look: GpuLook) -> Iterator[Observation]:
    """One check a cause, because cooling, power supply and the GPU itself are different repairs."""
    reasons = look.number("clock_reasons")
    checks = ("gpu_hw_thermal", "gpu_power_brake", "gpu_hw_slowdown", "gpu_sw_thermal")
    if reasons is None:
        for check in checks:
            yield from look.unknown(check, "clock_reasons")
        return
    values = {"clock_reasons": reasons}
    thermal, brake = bool(reasons & HW_THERMAL), bool(reasons & HW_POWER_BRAKE)
    # The slowdown bit comes with either of the two; alone it has a cause that they do not name.
    slowdown = bool(reasons & HW_SLOWDOWN) and not thermal and not brake
    since = look.history.software_thermal_since
    sustained_s = (look.at - since).total_seconds() if since is not None and reasons & SW_THERMAL else 0.0
    sustained = sustained_s >= SOFTWARE_THERMAL_S
    told = (
        ("gpu_hw_thermal", thermal, "hardware slows the clocks because of heat"),
        ("gpu_power_brake", brake, "the power brake slows the clocks: the power supply asked for it"),
        ("gpu_hw_slowdown", slowdown, "hardware slows the clocks, neither for heat nor for the power brake"),
        ("gpu_sw_thermal", sustained, f"software has slowed the clocks because of heat for {sustained_s:.0f} s"),
    )
    for check, bad, sentence in told:
        detail = sentence if bad else "clocks are not held down for this"
        yield look.tell(check, health_of(bad), detail, values=values)


def _power(look: GpuLook) -> Iterator[Observation]:
    watts, limit = _watts(look, "power_mw"), _watts(look, "power_limit_mw")
    yield from look.unknown("gpu_power", "power_mw")
    if watts is not None:
        of_limit = f" of {limit:.0f} W" if limit is not None else ""
        values = {"power_w": watts, "power_limit_w": limit}
        yield look.tell("gpu_power", Health.OK, f"draws {watts:.0f} W{of_limit}", values=values)


def _watts(look: GpuLook, name: str) -> float | None:
    milliwatts = look.number(name)
    return milliwatts / 1000 if milliwatts is not None else None

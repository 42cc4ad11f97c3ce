"""What readings of a GPU mean: bits of its clocks, counters that are not zero or grow, a link that is slow while idle.

Signatures find numbers (`gpu_clock_mask`, `gpu_counter`, `gpu_reading`, `gpu_pstate`); a number alone is no fact about
the GPU, and some only mean something beside another of the same line. Derived, in the words of live conditions:

    gpu_sw_power_cap gpu_hw_slowdown gpu_sw_thermal gpu_hw_thermal gpu_power_brake   bits of the clock event reasons
    throttle_lasts      the same of these on one GPU minutes apart; captures of
    gpu_ecc_counted     uncorrectable errors since the last reset; captures value, grew
    gpu_ecc_past        uncorrectable errors in the life of the GPU
    gpu_ecc_storm       corrected errors in a number that costs time; captures value, grew
    gpu_ecc_corrected   corrected errors, few
    gpu_rows_remapped   rows that were remapped after uncorrectable errors
    gpu_retired_pages   pages that wait for retirement
    gpu_pcie_replay     repeats on the PCIe link that grow quickly
    gpu_pcie_idle gpu_pcie_generation gpu_pcie_full gpu_pcie_width   the PCIe link against what it can do
    gpu_power_at_limit  a GPU draws what it may
    gpu_count           fewer GPUs than there should be
    gpu_temperature gpu_memory_temperature   too hot
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fault_attribution.derive.following import following
from fault_attribution.finding import Finding, Role

CLOCK_BITS: tuple[tuple[int, str, Role], ...] = (
    (0x4, "gpu_sw_power_cap", Role.BENIGN),
    (0x8, "gpu_hw_slowdown", Role.CONTEXT),
    (0x20, "gpu_sw_thermal", Role.CONTEXT),
    (0x40, "gpu_hw_thermal", Role.SYMPTOM),
    (0x80, "gpu_power_brake", Role.SYMPTOM),
)
"""nvml.h, nvmlClocksEventReason*. Idle (0x1), application clocks (0x2), sync boost (0x10) and display (0x100) are
settings or rest."""
THROTTLES = frozenset(kind for _, kind, _ in CLOCK_BITS)
READS = THROTTLES | {"gpu_clock_mask", "gpu_counter", "gpu_reading", "gpu_pstate", "gpu_count_reading"}
LASTS_S = 120.0
"""Offsets of an incident are good to about half a minute; what is seen two minutes apart was no moment's peak."""
ECC_FEW_MIN = 10
"""Corrected errors of which nobody asks anything: most boards have some."""
ECC_STORM_MIN = 1_000_000
"""Corrected errors since a reset. Azure's node checks take 20 million as their limit; a healthy GPU has hundreds."""
ECC_STORM_GROWTH_MIN = 10_000
"""Between two readings, which are minutes apart."""
REPLAYS_GROWTH_MIN = 1_000
"""Between two readings. DCGM warns at 80 a minute."""
_WANTED = ("expected", "expected2", "expected3")
AT_LIMIT_SHARE = 0.95
IDLE_UTILISATION_MAX = 5.0
"""Per cent. Below it the driver lowers the link to save power."""
BUSY_UTILISATION_MIN = 20.0
TEMPERATURE_MAX_C = 90.0
"""Slowdown of data-centre GPUs begins at 85 to 92 C; below 90 many run as designed."""
MEMORY_TEMPERATURE_MAX_C = 100.0
"""HBM is rated for 95 to 105 C."""


def gpu_readings(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive the kinds above."""
    reasons = list(_clock_reasons(findings))
    yield from reasons
    yield from _lasting([*findings, *reasons])
    yield from _counters(findings)
    yield from _of_one_line(findings)
    yield from _too_few(findings)
    for each in findings:
        value = each.number_of("value") if each.kind == "gpu_reading" else None
        if value is None:
            continue
        if each.captures.get("name") == "temperature_c" and value >= TEMPERATURE_MAX_C:
            yield told(each, "gpu_temperature", Role.SYMPTOM, f"the GPU has {value:g} C")
        if each.captures.get("name") == "memory_temperature_c" and value >= MEMORY_TEMPERATURE_MAX_C:
            yield told(each, "gpu_memory_temperature", Role.SYMPTOM, f"the GPU's memory has {value:g} C")


def told(base: Finding, kind: str, role: Role, text: str, **captures: str) -> Finding:
    """A derived finding at the place of another one."""
    told_of = {**base.captures, **captures}
    return following(
        base, kind, f"{text}: {base.text}"[:400], rule_id="derive.gpu", role=role, captures=told_of, count=1
    )


def _clock_reasons(findings: Sequence[Finding]) -> Iterator[Finding]:
    for each in findings:
        if each.kind != "gpu_clock_mask":
            continue
        try:
            mask = int(each.captures.get("mask", "0"), 0)
        except ValueError:
            continue
        for bit, kind, role in CLOCK_BITS:
            if mask & bit:
                yield told(each, kind, role, f"bit {bit:#x} of the clock event reasons is set")


def _lasting(findings: Sequence[Finding]) -> Iterator[Finding]:
    seen: dict[tuple[str, str, str], list[Finding]] = {}
    for each in findings:
        if each.kind in THROTTLES and each.at_s is not None:
            seen.setdefault((each.kind, each.node, each.device), []).append(each)
    for (kind, _, _), members in sorted(seen.items()):
        times = [each.at_s for each in members if each.at_s is not None]
        if max(times) - min(times) >= LASTS_S:
            yield told(members[0], "throttle_lasts", Role.CONTEXT, f"{kind} lasts", of=kind)


def _counters(findings: Sequence[Finding]) -> Iterator[Finding]:
    series: dict[tuple[str, str, str], list[tuple[float, Finding]]] = {}
    for each in findings:
        value = each.number_of("value") if each.kind == "gpu_counter" else None
        if value is not None:
            series.setdefault((each.captures.get("name", ""), each.node, each.device), []).append((value, each))
    for (name, _, _), readings in sorted(series.items(), key=lambda item: item[0]):
        highest, base = max(readings, key=lambda reading: (reading[0], reading[1].finding_id))
        growth = highest - min(value for value, _ in readings)
        named = _counter_kind(name, highest, growth)
        if named is not None:
            kind, role, text = named
            grew = "yes" if growth > 0 else "no"
            yield told(base, kind, role, text.format(highest=highest, growth=growth), grew=grew)


def _counter_kind(name: str, highest: float, growth: float) -> tuple[str, Role, str] | None:
    """What a counter means by its highest value and how much it grew between readings."""
    if highest <= 0:
        return None
    if name == "ecc_corrected":
        if highest >= ECC_STORM_MIN or growth >= ECC_STORM_GROWTH_MIN:
            return "gpu_ecc_storm", Role.CAUSE, "{highest:.0f} corrected memory errors, {growth:.0f} of them new"
        if highest < ECC_FEW_MIN:
            return None
        return "gpu_ecc_corrected", Role.CONTEXT, "{highest:.0f} corrected memory errors"
    if name == "pcie_replays":
        many = growth >= REPLAYS_GROWTH_MIN
        return ("gpu_pcie_replay", Role.SYMPTOM, "{growth:.0f} repeats on the PCIe link") if many else None
    return {
        "ecc_uncorrected": ("gpu_ecc_counted", Role.CAUSE, "{highest:.0f} uncorrectable memory errors since a reset"),
        "ecc_uncorrected_ever": ("gpu_ecc_past", Role.CONTEXT, "{highest:.0f} uncorrectable memory errors ever"),
        "rows_remapped_uncorrectable": ("gpu_rows_remapped", Role.CONTEXT, "{highest:.0f} rows remapped"),
        "retired_pages_pending": ("gpu_retired_pages", Role.CONTEXT, "{highest:.0f} pages wait for retirement"),
    }.get(name)


def _too_few(findings: Sequence[Finding]) -> Iterator[Finding]:
    for each in findings:
        if each.kind == "gpu_count_reading":
            # A pattern with several forms has one group for each; only those of the form that matched are there.
            found = next(
                (each.number_of(name) for name in ("found", "found2", "found3") if name in each.captures), None
            )
            wanted = next((each.number_of(name) for name in _WANTED if name in each.captures), None)
            if found is not None and wanted is not None and found < wanted:
                yield told(each, "gpu_count", Role.CAUSE, f"{found:g} GPUs of {wanted:g}")


def _of_one_line(findings: Sequence[Finding]) -> Iterator[Finding]:
    lines: dict[tuple[str, str, int, str], dict[str, Finding]] = {}
    for each in findings:
        if each.kind in ("gpu_reading", "gpu_pstate"):
            name = each.captures.get("name", "pstate")
            lines.setdefault((each.node, each.stream, each.number, each.text), {})[name] = each
    for _, read in sorted(lines.items(), key=lambda item: item[0]):
        draw, limit = _value(read, "power_w"), _value(read, "power_limit_w")
        if draw is not None and limit and draw >= AT_LIMIT_SHARE * limit:
            yield told(read["power_w"], "gpu_power_at_limit", Role.CONTEXT, "the GPU draws what it may")
        yield from _pcie(read)


def _pcie(read: dict[str, Finding]) -> Iterator[Finding]:
    width, width_max = _value(read, "pcie_width_now"), _value(read, "pcie_width_max")
    if width is not None and width_max is not None and width < width_max:
        text = f"PCIe x{width:g} of x{width_max:g}"
        yield told(read["pcie_width_now"], "gpu_pcie_width", Role.CAUSE, text, width=f"{width:g}")
    now, most = _value(read, "pcie_generation_now"), _value(read, "pcie_generation_max")
    if now is None or most is None:
        return
    base, text = read["pcie_generation_now"], f"PCIe generation {now:g} of {most:g}"
    if now >= most:
        yield told(base, "gpu_pcie_full", Role.CONTEXT, text)
        return
    busy = _value(read, "utilisation")
    pstate = read["pstate"].captures.get("pstate", "") if "pstate" in read else ""
    if pstate not in ("", "P0", "P1", "P2") or (busy is not None and busy <= IDLE_UTILISATION_MAX):
        yield told(base, "gpu_pcie_idle", Role.BENIGN, f"{text} on an idle GPU")
    elif pstate in ("P0", "P1", "P2") or (busy is not None and busy >= BUSY_UTILISATION_MIN):
        yield told(base, "gpu_pcie_generation", Role.SYMPTOM, f"{text} under load", loaded="yes")


def _value(read: dict[str, Finding], name: str) -> float | None:
    return read[name].number_of("value") if name in read else None

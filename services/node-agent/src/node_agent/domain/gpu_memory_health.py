"""Memory of a GPU: ECC, remapped rows, retired pages, InfoROM.

Sources: NVIDIA GPU Memory Error Management (docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt): a pending row remap or
page retirement takes effect at the next reset, a failed remap means that the board is to be replaced; nvml.h on
nvmlEccSramErrorStatus_t.bThresholdExceeded and nvmlRowRemapperHistogramValues_t.
"""

from __future__ import annotations

from collections.abc import Iterator

from fault_contracts.payload import Health
from node_agent.domain.gpu_look import GpuLook, health_of
from node_agent.domain.gpu_reading import NvmlCode
from node_agent.domain.observation import Observation

COUNTERS = (
    "ecc_volatile_corrected",
    "ecc_volatile_uncorrected",
    "ecc_aggregate_corrected",
    "ecc_aggregate_uncorrected",
)


def memory_health(look: GpuLook) -> Iterator[Observation]:
    """Every check of the memory that this GPU has."""
    yield from _ecc(look, "corrected")
    yield from _ecc(look, "uncorrected")
    yield from _sram(look)
    yield from _flag(
        look,
        "gpu_row_remap_pending",
        "remap_pending",
        "a row remap waits for the next reset of the GPU",
        "no row remap is pending",
    )
    yield from _flag(
        look,
        "gpu_row_remap_failure",
        "remap_failure",
        "a row could not be remapped: the board has to be replaced",
        "no row remap has failed",
    )
    yield from _banks(look)
    yield from _flag(
        look,
        "gpu_retired_pages",
        "retired_pages_pending",
        "a page retirement waits for the next reset of the GPU",
        "no page retirement is pending",
    )
    yield from _inforom(look)


def _ecc(look: GpuLook, kind: str) -> Iterator[Observation]:
    """Corrected errors are counted and never bad; an uncorrected one is bad when it is new.

    At the first look it cannot be known when an uncorrected error of this driver load happened: it is told as old.
    """
    check, volatile, aggregate = f"gpu_ecc_{kind}", f"ecc_volatile_{kind}", f"ecc_aggregate_{kind}"
    total = look.number(volatile)
    yield from look.unknown(check, volatile)
    if total is None:
        return
    added, first = look.growth.of(volatile), look.growth.over_s is None
    values = {"volatile": total, "aggregate": look.number(aggregate), "added": added}
    if kind == "corrected" or not (total if first else added):
        detail = f"{total} {kind} ECC errors since the driver was loaded, {added or 0} of them since the last look"
        yield look.tell(check, Health.OK, detail, values=values)
    elif first:
        detail = f"{total} uncorrected ECC errors since the driver was loaded, before anybody watched"
        yield look.tell(check, Health.BAD, detail, values=values, old=True)
    else:
        detail = f"{added} new uncorrected ECC errors, {total} since the driver was loaded"
        yield look.tell(check, Health.BAD, detail, values=values)


def _sram(look: GpuLook) -> Iterator[Observation]:
    exceeded = look.number("sram_threshold")
    yield from look.unknown("gpu_sram_threshold", "sram_threshold")
    if exceeded is None:
        return
    detail = (
        "uncorrected SRAM errors are over the driver's limit: the board has to be replaced"
        if exceeded
        else "uncorrected SRAM errors are below the driver's limit"
    )
    values = {"uncorrected": look.number("sram_uncorrected")}
    yield look.tell("gpu_sram_threshold", health_of(bool(exceeded)), detail, values=values)


def _flag(look: GpuLook, check: str, name: str, bad: str, good: str) -> Iterator[Observation]:
    value = look.number(name)
    yield from look.unknown(check, name)
    if value is None:
        return
    values = {key: look.number(key) for key in ("remap_corrected", "remap_uncorrected", "retired_pages")}
    yield look.tell(check, health_of(bool(value)), bad if value else good, values=values)


def _banks(look: GpuLook) -> Iterator[Observation]:
    """A bank without spare rows is the herald of a failed remap."""
    exhausted = look.number("banks_none")
    yield from look.unknown("gpu_row_remap_banks", "banks_none")
    if exhausted is None:
        return
    values = {key: look.number(key) for key in ("banks_none", "banks_low", "banks_partial", "banks_max")}
    detail = f"{exhausted} memory banks have no spare row left" if exhausted else "every memory bank has spare rows"
    yield look.tell("gpu_row_remap_banks", health_of(exhausted > 0), detail, values=values)


def _inforom(look: GpuLook) -> Iterator[Observation]:
    if look.reading.errors.get("inforom") == NvmlCode.CORRUPTED_INFOROM:
        yield look.tell("gpu_inforom", Health.BAD, "the InfoROM is corrupted: its checksum is wrong")
        return
    yield from look.unknown("gpu_inforom", "inforom")
    if look.number("inforom") is not None:
        yield look.tell("gpu_inforom", Health.OK, "the InfoROM's checksum is right")

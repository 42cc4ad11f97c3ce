"""Every question to NVML, in the process that may hang for it: one GPU in, plain data out.

Runs in the child process only (nvml_child.py) and knows nothing of health. A call that fails leaves its nvmlReturn
under the name of what it should have read. NVML alone is asked, never CUDA: a context takes memory and can hang.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml as nvml

Handle = Any
_GPU_IS_LOST = 15
_NOT_SUPPORTED = 3
LINKS_MAX = 18
"""NVLinks of a GPU: 18 on Hopper and Blackwell (nvml.h, NVML_NVLINK_MAX_LINKS)."""
SLICES_MAX = 16
PIDS_MAX = 64

FIELD_RECOVERY_ACTION = 230
FIELD_MEMORY_TEMPERATURE = 82
LINK_FIELDS = {
    "nvlink_replay": 161,
    "nvlink_recovery": 162,
    "nvlink_crc": 163,
    "nvlink_malformed": 206,
    "nvlink_receive": 208,
    "nvlink_integrity": 211,
    "nvlink_recovery_ok": 213,
    "nvlink_recovery_failed": 214,
}
"""Fields with the link as their scope: 161 to 163 up to Hopper, the others NVLink 5 (nvml.h, NVML_FI_DEV_NVLINK_*)."""
LINK_COUNTERS = {"nvlink_replay": 0, "nvlink_recovery": 1, "nvlink_crc": 2}
"""nvmlNvLinkErrorCounter_t, for drivers without the fields."""
_SIGNED_TYPES = {4, 5}
"""nvmlValueType_t of a field that has to be read as signed."""


class GpuIsLost(Exception):
    """The handle is dead; nothing more can be asked of it. Carries the nvmlReturn."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Answers:
    """What one GPU said so far."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.by_link: dict[str, list[int]] = {}
        self.errors: dict[str, int] = {}
        self.slices: list[str] = []
        self.pids: list[int] = []

    def ask(self, name: str, call: Callable[..., Any], *arguments: object) -> Any:
        """The call's result, or None with its error noted.

        Raises:
            GpuIsLost: it said so.
        """
        try:
            return call(*arguments)
        except nvml.NVMLError as error:
            if error.value == _GPU_IS_LOST:
                raise GpuIsLost(error.value) from error
            self.errors[name] = error.value
            return None

    def number(self, name: str, call: Callable[..., Any], *arguments: object) -> None:
        """As ask(), and keep a number."""
        value = self.ask(name, call, *arguments)
        if value is not None:
            self.numbers[name] = int(value)


def quick(handle: Handle) -> Answers:
    """What changes within seconds: six calls. Load and clock with the temperature, or it says nothing among peers."""
    said = Answers()
    said.number("temperature_c", nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
    said.number("power_mw", nvml.nvmlDeviceGetPowerUsage, handle)
    rates = said.ask("utilization_percent", nvml.nvmlDeviceGetUtilizationRates, handle)
    if rates is not None:
        said.numbers["utilization_percent"] = rates.gpu
    said.number("sm_clock_mhz", nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM)
    _clock_reasons(said, handle)
    _fields(said, handle, {"recovery_action": FIELD_RECOVERY_ACTION, "memory_temperature_c": FIELD_MEMORY_TEMPERATURE})
    return said


def whole(handle: Handle) -> Answers:
    """Everything."""
    said = quick(handle)
    for name, kind in (("shutdown_c", 0), ("slowdown_c", 1), ("memory_max_c", 2), ("gpu_max_c", 3)):
        said.number(name, nvml.nvmlDeviceGetTemperatureThreshold, handle, kind)
    said.number("margin_c", nvml.nvmlDeviceGetMarginTemperature, handle)
    said.number("power_limit_mw", nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    _memory(said, handle)
    said.number("pcie_width", nvml.nvmlDeviceGetCurrPcieLinkWidth, handle)
    said.number("pcie_width_max", nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
    said.number("pcie_generation", nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle)
    said.number("pcie_generation_max", nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)
    said.number("pcie_replay", nvml.nvmlDeviceGetPcieReplayCounter, handle)
    _links(said, handle)
    _fabric(said, handle)
    _mig(said, handle)
    _processes(said, handle)
    return said


def inforom(handle: Handle) -> int:
    """Whether the board's own store is whole, as nvmlReturn. It is read from flash: not for every look.

    Raises:
        GpuIsLost: it said so.
    """
    said = Answers()
    said.ask("inforom", nvml.nvmlDeviceValidateInforom, handle)
    return said.errors.get("inforom", 0)


def recovery_action(handle: Handle) -> int | None:
    """The driver's wish now; None: this driver has none, or it cannot be read."""
    said = Answers()
    try:
        _fields(said, handle, {"recovery_action": FIELD_RECOVERY_ACTION})
    except GpuIsLost:
        return None
    return said.numbers.get("recovery_action")


def _clock_reasons(said: Answers, handle: Handle) -> None:
    said.number("clock_reasons", nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if said.errors.get("clock_reasons") == nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
        del said.errors["clock_reasons"]  # its name up to R535
        said.number("clock_reasons", nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)


def _memory(said: Answers, handle: Handle) -> None:
    for name, error, counter in (
        ("ecc_volatile_corrected", 0, 0),
        ("ecc_volatile_uncorrected", 1, 0),
        ("ecc_aggregate_corrected", 0, 1),
        ("ecc_aggregate_uncorrected", 1, 1),
    ):
        said.number(name, nvml.nvmlDeviceGetTotalEccErrors, handle, error, counter)
    sram = nvml.c_nvmlEccSramErrorStatus_v1_t()
    if said.ask("sram_threshold", nvml.nvmlDeviceGetSramEccErrorStatus, handle, ctypes.byref(sram)) is not None:
        said.numbers["sram_threshold"] = sram.bThresholdExceeded
        said.numbers["sram_uncorrected"] = sram.aggregateUncParity + sram.aggregateUncSecDed
    rows = said.ask("remap_pending", nvml.nvmlDeviceGetRemappedRows, handle)
    if rows is not None:
        names = ("remap_corrected", "remap_uncorrected", "remap_pending", "remap_failure")
        said.numbers.update(zip(names, (int(value) for value in rows), strict=True))
    elif "remap_pending" in said.errors:
        said.errors["remap_failure"] = said.errors["remap_pending"]
    banks = said.ask("banks_none", nvml.nvmlDeviceGetRowRemapperHistogram, handle)
    if banks is not None:
        for name in ("max", "partial", "low", "none"):
            said.numbers[f"banks_{name}"] = int(getattr(banks, name))
    said.number("retired_pages_pending", nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)


def _fields(said: Answers, handle: Handle, wanted: dict[str, int]) -> None:
    """One call for all: each has a return code of its own, and a type that says how to read it."""
    values = said.ask("fields", nvml.nvmlDeviceGetFieldValues, handle, list(wanted.values()))
    if values is None:
        said.errors.update(dict.fromkeys(wanted, said.errors.pop("fields")))
        return
    for name, value in zip(wanted, values, strict=True):
        if value.nvmlReturn == 0:
            said.numbers[name] = _field_value(value)
        else:
            said.errors[name] = value.nvmlReturn


def _field_value(value: Any) -> int:
    kind = value.valueType
    if kind == 0:
        return int(value.value.dVal)
    if kind in _SIGNED_TYPES:
        return int(value.value.sllVal if kind == 4 else value.value.siVal)
    return int(value.value.ullVal if kind in (2, 3) else value.value.uiVal)


_NO_SUCH_LINK = (nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_NOT_FOUND)
"""What NVML says of the link past the last one."""


def _links(said: Answers, handle: Handle) -> None:
    states: list[int] = []
    for link in range(LINKS_MAX):
        state = said.ask("nvlink_up", nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            break
        states.append(int(state))
    if not states or said.errors.get("nvlink_up", nvml.NVML_ERROR_NOT_FOUND) not in _NO_SUCH_LINK:
        return  # one that could not be read is no end of the row: those after it are unknown, not down
    said.errors.pop("nvlink_up", None)
    said.by_link["nvlink_up"] = states
    scopes = [(field, link) for field in LINK_FIELDS.values() for link in range(len(states))]
    values = said.ask("nvlink_fields", nvml.nvmlDeviceGetFieldValues, handle, scopes)
    said.errors.pop("nvlink_fields", None)
    if values is not None:
        for place, name in enumerate(LINK_FIELDS):
            own = values[place * len(states) : (place + 1) * len(states)]
            if any(value.nvmlReturn == 0 for value in own):
                said.by_link[name] = [_field_value(value) if value.nvmlReturn == 0 else -1 for value in own]
    for name, counter in LINK_COUNTERS.items():
        if name in said.by_link:
            continue
        counts = [
            said.ask(name, nvml.nvmlDeviceGetNvLinkErrorCounter, handle, link, counter) for link in range(len(states))
        ]
        if any(count is not None for count in counts):
            said.by_link[name] = [-1 if count is None else int(count) for count in counts]


def _fabric(said: Answers, handle: Handle) -> None:
    fabric = nvml.c_nvmlGpuFabricInfo_v3_t()
    if said.ask("fabric_state", nvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(fabric)) is None:
        return
    said.numbers["fabric_state"] = int(fabric.state)
    said.numbers["fabric_status"] = int(fabric.status)
    said.numbers["fabric_mask"] = int(fabric.healthMask)
    said.numbers["fabric_summary"] = int(fabric.healthSummary)


def _mig(said: Answers, handle: Handle) -> None:
    modes = said.ask("mig_mode", nvml.nvmlDeviceGetMigMode, handle)
    if modes is None:
        return
    said.numbers["mig_mode"], said.numbers["mig_pending"] = int(modes[0]), int(modes[1])
    if not modes[0]:
        return
    for index in range(SLICES_MAX):
        piece = said.ask("mig_slices", nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if piece is None:
            if said.errors["mig_slices"] == nvml.NVML_ERROR_NOT_FOUND:
                continue  # places may be empty between others
            break
        of_gpu = said.ask("mig_slices", nvml.nvmlDeviceGetGpuInstanceId, piece)
        compute = said.ask("mig_slices", nvml.nvmlDeviceGetComputeInstanceId, piece)
        uuid = said.ask("mig_slices", nvml.nvmlDeviceGetUUID, piece)
        said.slices.append(f"{of_gpu}/{compute} {uuid}")


def _processes(said: Answers, handle: Handle) -> None:
    found = said.ask("processes", nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    if found is not None:
        said.numbers["processes"] = len(found)
        said.pids = sorted(process.pid for process in found)[:PIDS_MAX]

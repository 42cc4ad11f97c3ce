"""What NVML said of one GPU in one look, as it said it: numbers, lists by link, and what could not be read, with why.

The child process fills it (adapters/nvml_calls.py); what it means is judged beside it (gpu_health.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum


class NvmlCode(IntEnum):
    """nvmlReturn_t, those that are treated apart (nvml.h, API 13). Others stay plain numbers."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    ARGUMENT_VERSION_MISMATCH = 25
    UNKNOWN = 999


ABSENT = frozenset(
    {
        NvmlCode.NOT_SUPPORTED,
        NvmlCode.FUNCTION_NOT_FOUND,
        NvmlCode.ARGUMENT_VERSION_MISMATCH,
        NvmlCode.INVALID_ARGUMENT,
        NvmlCode.NOT_FOUND,
    }
)
"""The GPU or the driver has no such thing: no observation, and never a zero. The last two: links and slices past the
last one; the version: a driver older than the structure that we know."""
_NAMES = {code.value: code.name for code in NvmlCode}


def code_name(code: int) -> str:
    """`GPU_IS_LOST (15)`; a number that is not known here stays one."""
    return f"{_NAMES[code]} ({code})" if code in _NAMES else f"nvmlReturn {code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU in one look.

    Attributes:
        index: NVML's, now. Shifts when another GPU is lost.
        pci_bus_id: dddd:bb:dd; empty when not even that could be read.
        uuid: empty when it could not be read and was not known from before.
        identity: serial, board_part_number, pci_vendor_data, name, minor, as texts; what is not there is left out.
        numbers: by the names of nvml_calls.py. Temperatures in °C, power in mW.
        by_link: NVLink's states (1 up, 0 down) and counters, a place a link.
        slices: MIG instances, `gpu_instance/compute_instance uuid`.
        pids: of compute processes, in the host's namespace.
        errors: nvmlReturn of what could not be read, by the same names.
        lost: the code that the handle itself gave (GPU_IS_LOST, UNKNOWN, ...); nothing else was read then.
    """

    index: int
    pci_bus_id: str = ""
    uuid: str = ""
    identity: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    by_link: Mapping[str, Sequence[int]] = field(default_factory=dict)
    slices: Sequence[str] = ()
    pids: Sequence[int] = ()
    errors: Mapping[str, int] = field(default_factory=dict)
    lost: int | None = None

    @property
    def component_id(self) -> str:
        """How observations name the GPU: by uuid when it is known, else by its address."""
        return self.uuid or self.pci_bus_id or f"gpu{self.index}"

    @property
    def model(self) -> str:
        """Name of the model, or nothing."""
        return self.identity.get("name", "")

    def unread(self, *names: str) -> tuple[str, int] | None:
        """The first of these that exists here and could not be read, with the code."""
        for name in names:
            code = self.errors.get(name)
            if code is not None and code not in ABSENT:
                return name, code
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReading:
    """One look at all GPUs.

    Attributes:
        count: what NVML says; None when it could not be read.
        whole: it looked at everything, not only at what changes quickly.
        not_read: addresses of GPUs that were left out, or were not reached; nothing follows from their absence.
    """

    count: int | None
    driver_version: str = ""
    nvml_version: str = ""
    whole: bool
    gpus: Sequence[GpuReading] = ()
    not_read: frozenset[str] = frozenset()

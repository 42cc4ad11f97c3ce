"""One look at the machine itself, as the kernel shows it; nothing judged yet. None: it could not be read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReading:
    """A file system that must have room. `problem`: why it could not be read; then the numbers mean nothing."""

    path: str
    bytes_total: int = 0
    bytes_free: int = 0
    inodes_total: int = 0
    inodes_free: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mount of a block device. `broken`: the file system itself says that it stopped writing after an error."""

    path: str
    source: str
    filesystem: str
    readonly: bool
    broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepingProcess:
    """A process in uninterruptible sleep. The same (pid, start_ticks, cpu_ticks) again: it did not move meanwhile."""

    pid: int
    start_ticks: int
    cpu_ticks: int
    name: str
    wchan: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """adjtimex(2): whether somebody disciplines the clock, and how wrong it may be."""

    synchronised: bool
    error_s_max: float
    offset_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureReading:
    """/proc/pressure/memory: share of the last minute in which some, and in which all, waited for memory; percent."""

    some_avg60: float
    full_avg60: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuServices:
    """What must run beside the GPUs, by what the machine has.

    Attributes:
        gpus: NVIDIA GPUs on the PCI bus that the nvidia driver has taken.
        switches: NVSwitches on the PCI bus.
        sees_all: this process sees every process of the machine; in a container, a service not seen proves nothing.
    """

    gpus: int
    switches: int
    persistenced: bool
    fabric_manager: bool
    sees_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReading:
    """One look. `sleeping` None: /proc could not be listed; `mounts` None: mountinfo could not be read."""

    disks: tuple[DiskReading, ...] = ()
    mounts: tuple[Mount, ...] | None = None
    sleeping: tuple[SleepingProcess, ...] | None = None
    clock: ClockReading | None = None
    clock_problem: str = ""
    pressure: PressureReading | None = None
    gpu_services: GpuServices | None = None

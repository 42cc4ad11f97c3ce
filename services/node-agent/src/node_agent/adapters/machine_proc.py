"""The machine as /proc, /sys and two system calls show it; domain.machine_health judges."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from node_agent.adapters.machine import read_text
from node_agent.domain.machine_reading import (
    ClockReading,
    DiskReading,
    GpuServices,
    Mount,
    PressureReading,
    SleepingProcess,
)

PROCESSES_MAX = 65_536
MOUNTS_MAX = 256
_INIT_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the Linux kernel (include/linux/proc_ns.h): the machine's own, in no container."""
_STA_UNSYNC, _STA_NANO = 0x40, 0x2000
_TIME_ERROR = 5
"""adjtimex(2)."""
_COMM_LENGTH = 15
"""TASK_COMM_LEN without its end: longer names are cut in /proc/PID/stat."""
PERSISTENCED = "nvidia-persistenced"[:_COMM_LENGTH]
FABRIC_MANAGER = "nv-fabricmanager"[:_COMM_LENGTH]
_ESCAPE = re.compile(r"\\([0-7]{3})")


class _Timex(ctypes.Structure):
    """struct timex of a 64-bit Linux (linux/timex.h)."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def read_clock() -> ClockReading:
    """The kernel's own opinion of its clock; changes nothing (modes 0), needs no right.

    Raises:
        OSError: the call is not allowed here, or there is none.
    """
    function = getattr(ctypes.CDLL(None, use_errno=True), "adjtimex", None)
    if function is None:
        raise OSError(errno.ENOSYS, "this C library has no adjtimex")
    told = _Timex()
    answer = function(ctypes.byref(told))
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"adjtimex: {os.strerror(number)}")
    unit_s = 1e-9 if told.status & _STA_NANO else 1e-6
    return ClockReading(
        synchronised=answer != _TIME_ERROR and not told.status & _STA_UNSYNC,
        error_s_max=told.maxerror / 1e6,
        offset_s=told.offset * unit_s,
    )


def read_disk(path: str) -> DiskReading:
    """Blocks where the file system does (NFS whose server is away)."""
    try:
        told = os.statvfs(path)
    except OSError as error:
        return DiskReading(path=path, problem=f"{path}: {error.strerror or error} (PHALANX_DISKS names it)")
    return DiskReading(
        path=path,
        bytes_total=told.f_blocks * told.f_frsize,
        bytes_free=told.f_bavail * told.f_frsize,
        inodes_total=told.f_files,
        inodes_free=told.f_favail,
    )


def read_mounts(proc: Path) -> tuple[Mount, ...] | None:
    """Mounts of block devices and of networks, one a place (proc_pid_mountinfo(5)); None: the table cannot be read.

    Only what is on a device or a server can break: tmpfs, overlays and the kernel's own are left out, and so are bind
    mounts of single files, of which a container has a dozen.
    """
    try:
        text = (proc / "self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found: dict[str, Mount] = {}
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        before, after = left.split(" "), right.split(" ")
        if not separator or len(before) < 6 or len(after) < 3:
            continue  # a form that no kernel writes
        path, source, options = _plain(before[4]), _plain(after[1]), set(after[2].split(","))
        if not (source.startswith("/dev/") or ":" in source) or len(found) >= MOUNTS_MAX:
            continue
        if source.startswith("/dev/") and before[3] != "/" and Path(path).is_file():
            continue  # asked of local ones only: a server that is away would not answer
        readonly = "ro" in before[5].split(",") or "ro" in options
        broken = bool(options & {"emergency_ro", "shutdown"})
        found[path] = Mount(path=path, source=source, filesystem=after[0], readonly=readonly, broken=broken)
    return tuple(found.values())


def read_pressure(proc: Path) -> PressureReading | None:
    """None: this kernel does not measure it (CONFIG_PSI, psi=1)."""
    text = read_text(proc / "pressure/memory")
    shares = dict(re.findall(r"^(some|full) .*?avg60=([0-9.]+)", text or "", flags=re.MULTILINE))
    if "some" not in shares:
        return None
    return PressureReading(some_avg60=float(shares["some"]), full_avg60=float(shares.get("full", "0")))


def read_processes(proc: Path) -> tuple[tuple[SleepingProcess, ...], frozenset[str]] | None:
    """Processes in uninterruptible sleep, and the names of all; None: /proc cannot be listed. 5 to 10 us a process."""
    try:
        with os.scandir(proc) as entries:
            pids = [entry.name for entry in entries if entry.name.isdigit()][:PROCESSES_MAX]
    except OSError:
        return None
    names: set[str] = set()
    sleeping = []
    for pid in pids:
        told = _stat(proc / pid / "stat")
        if told is None:
            continue  # it ended meanwhile
        name, fields = told
        names.add(name)
        if fields[0] == "D":
            # Fields 14, 15 and 22 of proc_pid_stat(5); those behind the name begin with the third.
            sleeping.append(
                SleepingProcess(
                    pid=int(pid),
                    start_ticks=int(fields[19]),
                    cpu_ticks=int(fields[11]) + int(fields[12]),
                    name=name,
                    wchan=(read_text(proc / pid / "wchan") or "").strip("0"),
                )
            )
    return tuple(sleeping), frozenset(names)


def read_gpu_services(sys: Path, proc: Path, names: frozenset[str]) -> GpuServices:
    """What the PCI bus has of NVIDIA, and which of its services run."""
    gpus = switches = 0
    for vendor, code, driver in _pci(sys / "bus/pci/devices"):
        if vendor != "0x10de":
            continue
        # PCI classes 0300 VGA, 0302 3D controller, 0680 other bridge, which an NVSwitch is.
        gpus += code[:6] in ("0x0300", "0x0302") and driver == "nvidia"
        switches += code[:6] == "0x0680"
    try:
        sees_all = os.readlink(proc / "self/ns/pid") == _INIT_PID_NAMESPACE
    except OSError:
        sees_all = False
    return GpuServices(
        gpus=gpus,
        switches=switches,
        persistenced=PERSISTENCED in names,
        fabric_manager=FABRIC_MANAGER in names,
        sees_all=sees_all,
    )


def _pci(folder: Path) -> Iterator[Sequence[str]]:
    try:
        devices = list(folder.iterdir())
    except OSError:
        return  # no PCI bus
    for device in devices:
        try:
            driver = os.path.basename(os.readlink(device / "driver"))
        except OSError:
            driver = ""
        yield read_text(device / "vendor") or "", read_text(device / "class") or "", driver


def _stat(path: Path) -> tuple[str, list[str]] | None:
    text = read_text(path)
    if text is None or ")" not in text:
        return None
    begin, end = text.index("("), text.rindex(")")
    fields = text[end + 2 :].split(" ")
    return (text[begin + 1 : end], fields) if len(fields) > 19 else None


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 8)), text)

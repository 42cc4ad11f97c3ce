"""The machine itself from look to look: room, mounts that became read-only, blocked processes, clock, memory, services.

What the machine does not have is no observation: no pressure file, no GPU service where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.machine_reading import (
    ClockReading,
    DiskReading,
    GpuServices,
    MachineReading,
    Mount,
    PressureReading,
    SleepingProcess,
)
from node_agent.domain.observation import Observation

MEMORY_FULL_PERCENT_MAX = 60.0
"""systemd-oomd kills from there on (oomd.conf(5), DefaultMemoryPressureLimit=60%)."""
CLOCK_ERROR_S_MAX = 1.0
"""Ours: times of two machines that are further apart cannot be put in order by a person who reads two logs. A clock
that is disciplined over a network is within 0.1 s."""
BLOCKED_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePolicy:
    """Limits that the operator sets."""

    disk_free_ratio_min: float
    blocked_s_max: float


@dataclass(slots=True, kw_only=True)
class MachineWatch:
    """Remembers which mounts could be written to, and since when a process does not move."""

    policy: MachinePolicy
    _writable: set[str] = field(default_factory=set)
    _blocked_since_s: dict[SleepingProcess, float] = field(default_factory=dict)

    def judge(self, reading: MachineReading, *, now_s: float, at: datetime) -> list[Observation]:
        """Everything that can be said of this look."""
        told = [_disk(disk, self.policy.disk_free_ratio_min, at) for disk in reading.disks]
        told += self._mounts(reading.mounts, at)
        told.append(self._blocked(reading.sleeping, now_s, at))
        told.append(_clock(reading.clock, reading.clock_problem, at))
        if reading.pressure is not None:
            told.append(_pressure(reading.pressure, at))
        if reading.gpu_services is not None:
            told += _services(reading.gpu_services, at)
        return told

    def _mounts(self, mounts: tuple[Mount, ...] | None, at: datetime) -> Iterator[Observation]:
        if mounts is None:
            yield _host("disk_readonly", Health.UNKNOWN, "the table of mounts cannot be read", at)
            return
        for mount in mounts:
            if not mount.readonly:
                self._writable.add(mount.path)
            became = mount.readonly and mount.path in self._writable
            what = f"{mount.path} ({mount.filesystem} on {mount.source})"
            if mount.broken or became:
                why = "stopped writing after an error" if mount.broken else "became read-only while it was watched"
                yield _host("disk_readonly", Health.BAD, f"{what} {why}", at, component_id=mount.path)
            else:
                words = "read-only since before it was watched" if mount.readonly else "writable"
                yield _host("disk_readonly", Health.OK, f"{what} {words}", at, component_id=mount.path)

    def _blocked(self, sleeping: tuple[SleepingProcess, ...] | None, now_s: float, at: datetime) -> Observation:
        check = "process_blocked_host"
        if sleeping is None:
            self._blocked_since_s.clear()
            return _host(check, Health.UNKNOWN, "the processes cannot be listed", at)
        since_s = self._blocked_since_s
        # Where it waits may change while it is blocked; that it is the same process, and did no work, is what counts.
        known = {(process.pid, process.start_ticks, process.cpu_ticks): begun for process, begun in since_s.items()}
        self._blocked_since_s = {
            process: known.get((process.pid, process.start_ticks, process.cpu_ticks), now_s) for process in sleeping
        }
        over = sorted(
            ((now_s - begun, process) for process, begun in self._blocked_since_s.items()),
            key=lambda pair: -pair[0],
        )
        over = [pair for pair in over if pair[0] > self.policy.blocked_s_max]
        limit = f"{self.policy.blocked_s_max:g} s"
        values = {"blocked": float(len(over)), "sleeping": float(len(sleeping))}
        if not over:
            return _host(check, Health.OK, f"no process blocked for over {limit}", at, values=values)
        names = ", ".join(
            f"{process.name} (pid {process.pid}, {age_s:.0f} s, in {process.wchan or 'an unknown place'})"
            for age_s, process in over[:BLOCKED_SHOWN]
        )
        oldest_s, oldest = over[0]
        return _host(
            check,
            Health.BAD,
            f"{len(over)} blocked for over {limit}: {names}",
            at,
            values={**values, "longest_s": round(oldest_s, 1)},
            attributes={"pid": str(oldest.pid), "process": oldest.name, "wchan": oldest.wchan},
        )


def _disk(disk: DiskReading, ratio_min: float, at: datetime) -> Observation:
    check = "disk_space"
    if disk.problem:
        return _host(check, Health.UNKNOWN, disk.problem, at, component_id=disk.path)
    shares = {"space": _share(disk.bytes_free, disk.bytes_total), "inodes": _share(disk.inodes_free, disk.inodes_total)}
    short = [name for name, share in shares.items() if share is not None and share < ratio_min]
    shown = ", ".join(f"{share:.1%} of its {name} free" for name, share in shares.items() if share is not None)
    values = {f"{name}_free_ratio": round(share, 4) for name, share in shares.items() if share is not None}
    return _host(
        check,
        Health.BAD if short else Health.OK,
        f"{disk.path}: {shown or 'of no fixed size'} (at least {ratio_min:.1%})",
        at,
        component_id=disk.path,
        values={**values, "free_bytes": float(disk.bytes_free)},
    )


def _share(free: int, total: int) -> float | None:
    """None where the file system does not count (btrfs has no inodes, some have no blocks)."""
    return free / total if total > 0 else None


def _clock(clock: ClockReading | None, problem: str, at: datetime) -> Observation:
    if clock is None:
        return _host("clock_skew", Health.UNKNOWN, problem or "the kernel does not tell", at)
    values = {"error_s_max": round(clock.error_s_max, 6), "offset_s": round(clock.offset_s, 9)}
    if not clock.synchronised:
        text = "nobody disciplines the clock (STA_UNSYNC): how wrong it is cannot be told; run chrony or ntpd"
        return _host("clock_skew", Health.UNKNOWN, text, at, values=values)
    bad = clock.error_s_max > CLOCK_ERROR_S_MAX
    text = f"wrong by at most {clock.error_s_max:.3f} s (bad above {CLOCK_ERROR_S_MAX:g} s)"
    return _host("clock_skew", Health.BAD if bad else Health.OK, text, at, values=values)


def _pressure(pressure: PressureReading, at: datetime) -> Observation:
    bad = pressure.full_avg60 > MEMORY_FULL_PERCENT_MAX
    text = (
        f"all tasks waited for memory {pressure.full_avg60:g} % of a minute (bad above {MEMORY_FULL_PERCENT_MAX:g} %)"
    )
    values = {"full_avg60_percent": pressure.full_avg60, "some_avg60_percent": pressure.some_avg60}
    return _host("memory_pressure", Health.BAD if bad else Health.OK, text, at, values=values)


def _services(seen: GpuServices, at: datetime) -> Iterator[Observation]:
    blind = "; other processes of the machine cannot be seen from here" if not seen.sees_all else ""
    if seen.gpus:
        # Persistence can also be switched on in the driver itself (nvidia-smi -pm 1), so its absence proves nothing.
        health = Health.OK if seen.persistenced else Health.UNKNOWN
        text = "runs" if seen.persistenced else f"is not seen; the driver may be kept loaded another way{blind}"
        yield _driver("nvidia_persistenced", health, f"nvidia-persistenced {text}", at)
    if seen.switches:
        health = Health.OK if seen.fabric_manager else Health.BAD if seen.sees_all else Health.UNKNOWN
        text = "runs" if seen.fabric_manager else f"is not seen, and {seen.switches} NVSwitches need it{blind}"
        yield _driver("fabric_manager", health, f"nv-fabricmanager {text}", at)


def _driver(check: str, health: Health, detail: str, at: datetime) -> Observation:
    return Observation(component=Component.DRIVER, check=check, health=health, detail=detail, observed_at=at)


def _host(
    check: str,
    health: Health,
    detail: str,
    at: datetime,
    *,
    component_id: str = "",
    values: Mapping[str, float] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Observation:
    return Observation(
        component=Component.HOST,
        component_id=component_id,
        check=check,
        health=health,
        detail=detail,
        values=values or {},
        attributes=attributes or {},
        observed_at=at,
    )

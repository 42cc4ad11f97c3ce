"""What a look at the machine means, at each limit and where nothing can be told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fault_contracts.payload import Health
from node_agent.domain.machine_health import MachinePolicy, MachineWatch
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

AT = datetime(2026, 1, 1, tzinfo=UTC)
DISK = DiskReading(path="/", bytes_total=1_000, bytes_free=50, inodes_total=1_000, inodes_free=50)
MOUNT = Mount(path="/data", source="/dev/nvme0n1", filesystem="ext4", readonly=False)
STUCK = SleepingProcess(pid=7, start_ticks=1, cpu_ticks=5, name="python", wchan="nfs_wait_bit_killable")
GPUS = GpuServices(gpus=8, switches=4, persistenced=True, fabric_manager=True, sees_all=True)


def watch() -> MachineWatch:
    return MachineWatch(policy=MachinePolicy(disk_free_ratio_min=0.05, blocked_s_max=120))


def look(watching: MachineWatch, now_s: float = 0.0, **parts: object) -> dict[str, Observation]:
    reading = replace(MachineReading(mounts=(), sleeping=()), **parts)
    return {one.check: one for one in watching.judge(reading, now_s=now_s, at=AT)}


def test_room_is_enough_up_to_the_limit() -> None:
    assert look(watch(), disks=(DISK,))["disk_space"].health is Health.OK
    assert look(watch(), disks=(replace(DISK, bytes_free=49),))["disk_space"].health is Health.BAD
    short = look(watch(), disks=(replace(DISK, inodes_free=49),))["disk_space"]
    assert (short.health, short.component_id) == (Health.BAD, "/")
    assert short.detail == "/: 5.0% of its space free, 4.9% of its inodes free (at least 5.0%)"


def test_a_file_system_that_counts_no_inodes_is_judged_by_its_room() -> None:
    seen = look(watch(), disks=(replace(DISK, inodes_total=0, inodes_free=0),))["disk_space"]
    assert seen.health is Health.OK
    assert "inodes" not in seen.detail


def test_a_file_system_that_does_not_answer_is_unknown() -> None:
    seen = look(watch(), disks=(DiskReading(path="/nfs", problem="/nfs: no answer"),))["disk_space"]
    assert (seen.health, seen.detail) == (Health.UNKNOWN, "/nfs: no answer")


def test_a_mount_that_becomes_readonly_is_bad_and_one_that_always_was_is_not() -> None:
    watching = watch()
    assert look(watching, mounts=(replace(MOUNT, readonly=True),))["disk_readonly"].health is Health.OK
    assert look(watching, mounts=(MOUNT,))["disk_readonly"].health is Health.OK
    seen = look(watching, mounts=(replace(MOUNT, readonly=True),))["disk_readonly"]
    assert (seen.health, seen.component_id) == (Health.BAD, "/data")
    assert seen.detail == "/data (ext4 on /dev/nvme0n1) became read-only while it was watched"


def test_a_file_system_that_says_it_is_broken_needs_no_past() -> None:
    assert look(watch(), mounts=(replace(MOUNT, readonly=True, broken=True),))["disk_readonly"].health is Health.BAD


def test_what_cannot_be_read_is_unknown() -> None:
    told = look(watch(), mounts=None, sleeping=None, clock_problem="adjtimex: Operation not permitted")
    assert {check: one.health for check, one in told.items()} == {
        "disk_readonly": Health.UNKNOWN,
        "process_blocked_host": Health.UNKNOWN,
        "clock_skew": Health.UNKNOWN,
    }
    assert told["clock_skew"].detail == "adjtimex: Operation not permitted"


def test_a_process_that_does_not_move_for_too_long_is_bad() -> None:
    watching = watch()
    for now_s in (0.0, 60.0, 120.0):
        assert look(watching, now_s, sleeping=(STUCK,))["process_blocked_host"].health is Health.OK
    elsewhere = replace(STUCK, wchan="rpc_wait_bit_killable")
    seen = look(watching, 121.0, sleeping=(elsewhere,))["process_blocked_host"]
    assert seen.health is Health.BAD
    assert seen.detail == "1 blocked for over 120 s: python (pid 7, 121 s, in rpc_wait_bit_killable)"
    assert seen.attributes["pid"] == "7"


@pytest.mark.parametrize("moved", [replace(STUCK, cpu_ticks=6), replace(STUCK, start_ticks=9), None])
def test_a_process_that_moved_or_is_another_starts_anew(moved: SleepingProcess | None) -> None:
    watching = watch()
    look(watching, 0.0, sleeping=(STUCK,))
    look(watching, 100.0, sleeping=() if moved is None else (moved,))
    last = STUCK if moved is None else moved
    assert look(watching, 200.0, sleeping=(last,))["process_blocked_host"].health is Health.OK


@pytest.mark.parametrize(
    ("clock", "health"),
    [
        (ClockReading(synchronised=True, error_s_max=1.0, offset_s=0.0), Health.OK),
        (ClockReading(synchronised=True, error_s_max=1.01, offset_s=0.0), Health.BAD),
        (ClockReading(synchronised=False, error_s_max=16.0, offset_s=0.0), Health.UNKNOWN),
    ],
)
def test_the_clock_is_judged_by_the_kernels_own_bound(clock: ClockReading, health: Health) -> None:
    assert look(watch(), clock=clock)["clock_skew"].health is health


def test_memory_pressure_is_what_all_tasks_wait() -> None:
    assert look(watch(), pressure=PressureReading(some_avg60=99, full_avg60=60))["memory_pressure"].health is Health.OK
    bad = look(watch(), pressure=PressureReading(some_avg60=99, full_avg60=60.1))["memory_pressure"]
    assert bad.health is Health.BAD
    assert "memory_pressure" not in look(watch())


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (GPUS, {"nvidia_persistenced": Health.OK, "fabric_manager": Health.OK}),
        (replace(GPUS, gpus=0, switches=0, persistenced=False, fabric_manager=False), {}),
        (replace(GPUS, switches=0, persistenced=False), {"nvidia_persistenced": Health.UNKNOWN}),
        (replace(GPUS, fabric_manager=False), {"nvidia_persistenced": Health.OK, "fabric_manager": Health.BAD}),
        (
            replace(GPUS, fabric_manager=False, persistenced=False, sees_all=False),
            {"nvidia_persistenced": Health.UNKNOWN, "fabric_manager": Health.UNKNOWN},
        ),
    ],
)
def test_services_are_expected_where_their_hardware_is(seen: GpuServices, wanted: dict[str, Health]) -> None:
    told = look(watch(), gpu_services=seen)
    services = ("nvidia_persistenced", "fabric_manager")
    assert {check: one.health for check, one in told.items() if check in services} == wanted

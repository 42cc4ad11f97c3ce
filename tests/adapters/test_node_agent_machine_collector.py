"""The host collector: on this machine as it is, and on trees as /proc has them."""

import asyncio
import threading
from pathlib import Path

import pytest

from fault_contracts.payload import Health
from node_agent.adapters import machine, machine_proc
from node_agent.adapters.machine_collector import MachineCollector
from node_agent.domain.machine_health import MachinePolicy
from node_agent.domain.machine_reading import DiskReading
from service_kit.clock import SystemClock

pytestmark = pytest.mark.timeout(60)


def collector(
    *, proc: Path = Path("/proc"), sys: Path = Path("/sys"), disks: tuple[str, ...] = ("/",)
) -> MachineCollector:
    return MachineCollector(
        sys_root=sys,
        proc_root=proc,
        disks=disks,
        interval_s=1.0,
        policy=MachinePolicy(disk_free_ratio_min=0.0, blocked_s_max=1e6),
        clock=SystemClock(),
    )


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def stat_line(pid: int, name: str, state: str) -> str:
    return f"{pid} ({name}) {state} 1 1 1 0 -1 4194304 100 0 0 0 17 4 0 0 20 0 1 0 4242 1000 100"


@pytest.mark.asyncio
async def test_this_machine_can_be_looked_at() -> None:
    told = {one.check: one for one in await collector().collect()}
    assert told["disk_space"].health is Health.OK
    assert told["process_blocked_host"].health is Health.OK
    assert told["clock_skew"].health in Health
    assert "disk_readonly" in told or machine_proc.read_mounts(Path("/proc")) == ()


@pytest.mark.asyncio
async def test_a_folder_that_is_not_there_is_unknown_and_the_others_are_not(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    told = {
        one.component_id: one for one in await collector(disks=("/", missing)).collect() if one.check == "disk_space"
    }
    assert told["/"].health is Health.OK
    assert told[missing].health is Health.UNKNOWN
    assert missing in told[missing].detail


@pytest.mark.asyncio
async def test_a_file_system_that_hangs_costs_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()
    read = machine_proc.read_disk

    def hanging(path: str) -> DiskReading:
        if path == "/hangs":
            let_go.wait(60)
        return read(path)

    monkeypatch.setattr(machine_proc, "read_disk", hanging)
    monkeypatch.setattr("node_agent.adapters.machine_collector.DISK_LIMIT_S", 0.2)
    try:
        told = {one.component_id: one.health for one in await collector(disks=("/", "/hangs")).collect()}
    finally:
        let_go.set()
    assert told["/"] is Health.OK
    assert told["/hangs"] is Health.UNKNOWN
    await asyncio.sleep(0)


def test_sleeping_processes_are_found_whatever_their_names(tmp_path: Path) -> None:
    write(tmp_path, "7/stat", stat_line(7, "a) D (b", "D"))
    write(tmp_path, "7/wchan", "nfs_wait_bit_killable")
    write(tmp_path, "8/stat", stat_line(8, "nv-fabricmanage", "S"))
    write(tmp_path, "9/stat", "")
    write(tmp_path, "self/stat", stat_line(1, "self", "D"))
    found = machine_proc.read_processes(tmp_path)
    assert found is not None
    (sleeping,), names = found
    assert (sleeping.pid, sleeping.name, sleeping.wchan) == (7, "a) D (b", "nfs_wait_bit_killable")
    assert (sleeping.cpu_ticks, sleeping.start_ticks) == (21, 4242)
    assert machine_proc.FABRIC_MANAGER in names


def test_mounts_of_devices_and_servers_are_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        "self/mountinfo",
        "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
        "22 21 0:5 / /proc rw - proc proc rw\n"
        "23 21 8:2 / /data\\040one ro,relatime - xfs /dev/sdb1 ro\n"
        "24 21 8:3 / /broken rw - ext4 /dev/sdc1 rw,emergency_ro\n"
        "25 21 0:40 / /nfs rw - nfs4 server:/export rw\n"
        "a line of nonsense\n",
    )
    mounts = machine_proc.read_mounts(tmp_path)
    assert mounts is not None
    assert [(mount.path, mount.readonly, mount.broken) for mount in mounts] == [
        ("/", False, False),
        ("/data one", True, False),
        ("/broken", False, True),
        ("/nfs", False, False),
    ]
    assert machine_proc.read_mounts(tmp_path / "none") is None


def test_pressure_is_read_where_the_kernel_measures_it(tmp_path: Path) -> None:
    assert machine_proc.read_pressure(tmp_path) is None
    some = "some avg10=1.00 avg60=12.50 avg300=0.00 total=1\nfull avg10=0.00 avg60=3.25 avg300=0.00 total=1\n"
    write(tmp_path, "pressure/memory", some)
    pressure = machine_proc.read_pressure(tmp_path)
    assert pressure is not None
    assert (pressure.some_avg60, pressure.full_avg60) == (12.5, 3.25)


def test_gpus_and_switches_are_found_on_the_bus(tmp_path: Path) -> None:
    sys = tmp_path / "sys"
    for address, code, driver in (
        ("0000:3b:00.0", "0x030200", "nvidia"),
        ("0000:c0:00.0", "0x068000", "nvidia-nvswitch"),
    ):
        write(sys, f"bus/pci/devices/{address}/vendor", "0x10de\n")
        write(sys, f"bus/pci/devices/{address}/class", f"{code}\n")
        (sys / f"bus/pci/devices/{address}/driver").symlink_to(tmp_path / driver)
    seen = machine_proc.read_gpu_services(sys, tmp_path, frozenset({machine_proc.PERSISTENCED}))
    assert (seen.gpus, seen.switches, seen.persistenced, seen.fabric_manager, seen.sees_all) == (
        1,
        1,
        True,
        False,
        False,
    )


def test_the_kernels_clock_is_asked() -> None:
    try:
        clock = machine_proc.read_clock()
    except OSError as error:
        pytest.skip(f"adjtimex is not allowed here: {error}")
    assert 0 <= clock.error_s_max < 1e6
    assert abs(clock.offset_s) < 10


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26\nGCC version: 12\n", "570.124.06"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build\n", "575.57.08"),
        ("", ""),
    ],
)
def test_the_drivers_version_is_read(tmp_path: Path, text: str, wanted: str) -> None:
    write(tmp_path, "driver/nvidia/version", text)
    assert machine.nvidia_driver_version(tmp_path) == wanted

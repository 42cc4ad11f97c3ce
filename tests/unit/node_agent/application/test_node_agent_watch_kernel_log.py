"""What becomes of kernel log records: devices by name, processes by owner, forgeries and gaps told."""

import math
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest

from fault_contracts.health import Component
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.payload import Health
from node_agent.application.watch_kernel_log import KernelLogWatch, LogBatch
from node_agent.domain.device_directory import Directory
from node_agent.domain.kmsg_record import KmsgRecord
from node_agent.domain.observation import Observation
from node_agent.domain.process_owner import ProcessOwner

UUID = "GPU-1f2e3d4c-5b6a-7988-a7b6-c5d4e3f2a1b0"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UP_S = 1_000.0


class FixedClock:
    """1,000 s after boot."""

    def now(self) -> datetime:
        return NOW

    def monotonic_s(self) -> float:
        return UP_S

    async def sleep(self, duration_s: float) -> None:
        raise AssertionError(duration_s)


class Owners:
    """Knows pid 7."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def owner(self, pid: int) -> ProcessOwner:
        self.asked.append(pid)
        return ProcessOwner(job_id="llama", rank="3", pod_uid="p") if pid == 7 else ProcessOwner()


class Log:
    """Batches, then the end."""

    def __init__(self, *batches: LogBatch) -> None:
        self._batches = batches

    async def batches(self) -> AsyncIterator[LogBatch]:
        for batch in self._batches:
            yield batch


def record(text: str, sequence: int = 1, *, at_s: float = UP_S - 10, facility: int = 0) -> KmsgRecord:
    return KmsgRecord(facility=facility, sequence=sequence, since_boot_us=int(at_s * 1e6), text=text)


def batch(*texts: str, old: bool = False) -> LogBatch:
    records = [record(text, n, at_s=UP_S - 10 + n * 2) for n, text in enumerate(texts)]
    return LogBatch(records=records, old_before_us=math.inf if old else 0.0, drained=True)


async def told(
    *batches: LogBatch, directory: Directory | None = None, owners: Owners | None = None, driver: str = ""
) -> Sequence[Observation]:
    seen: list[Observation] = []
    watch = KernelLogWatch(
        Log(*batches), directory or Directory(), owners or Owners(), FixedClock(), driver_version=lambda: driver
    )
    await watch.run(seen.append)
    return seen


@pytest.mark.asyncio
async def test_an_address_becomes_the_gpu_that_the_log_named_before() -> None:
    directory = Directory()
    before, after = await told(
        batch(
            "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
            f"NVRM: GPU at PCI:0000:3b:00: {UUID}",
            "NVRM: GPU Board Serial Number: 1654321000000",
            "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        ),
        directory=directory,
    )
    assert (before.component_id, after.component_id) == ("0000:3b:00", UUID)
    assert (after.attributes["gpu_uuid"], after.attributes["board_serial"]) == (UUID, "1654321000000")
    assert after.attributes["pci_bus_id"] == "0000:3b:00"
    assert [device.device_id for device in directory.all()] == [UUID]


@pytest.mark.asyncio
async def test_the_time_is_when_it_happened() -> None:
    (seen,) = await told(LogBatch(records=[record("NVRM: Xid (PCI:0000:3b:00): 43, Ch 1", at_s=UP_S - 90)]))
    assert (NOW - seen.observed_at).total_seconds() == pytest.approx(90)
    assert seen.attributes["seq"] == "1"
    (future,) = await told(LogBatch(records=[record("NVRM: Xid (PCI:0000:3b:00): 43, Ch 1", at_s=UP_S + 9e6)]))
    assert future.observed_at == NOW


@pytest.mark.asyncio
async def test_a_process_becomes_job_and_rank() -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 43, pid=7, name=python3, Ch 00000010"
    (seen,) = await told(batch(line))
    assert {name: seen.attributes[name] for name in ("job_id", "rank", "pid", "process")} == {
        "job_id": "llama", "rank": "3", "pid": "7", "process": "python3",
    }  # fmt: skip


@pytest.mark.asyncio
async def test_the_pid_of_an_old_line_is_not_looked_up() -> None:
    owners = Owners()
    (seen,) = await told(batch("NVRM: Xid (PCI:0000:3b:00): 43, pid=7, name=python3, Ch 1", old=True), owners=owners)
    assert (seen.old, owners.asked, "job_id" in seen.attributes) == (True, [], False)


@pytest.mark.asyncio
async def test_an_oom_line_names_the_pod_even_when_the_process_is_gone() -> None:
    pod = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
    (seen,) = await told(
        batch(
            f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,"
            f"oom_memcg=/kubepods/pod{pod},task_memcg=/kubepods/pod{pod}/{'a1' * 32},task=python3,pid=9,uid=0",
            "Memory cgroup out of memory: Killed process 9 (python3) total-vm:1kB, anon-rss:1kB, file-rss:1kB",
        )
    )
    assert (seen.check, seen.component) == ("oom_kill", Component.HOST)
    assert (seen.attributes["pod_uid"], seen.attributes["container_id"]) == (pod, "a1" * 32)


@pytest.mark.asyncio
async def test_what_a_program_writes_is_refused_and_counted() -> None:
    forged = [
        record("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", n, facility=facility)
        for n, facility in enumerate((1, 3, 23))
    ]
    harmless = record("NVRM: blah", 9, facility=3)
    name = record(f"NVRM: GPU at PCI:0000:3b:00: {UUID}", 8, facility=1)
    directory = Directory()
    (seen,) = await told(LogBatch(records=[*forged, harmless, name]), directory=directory)
    assert (seen.check, seen.count, seen.health) == ("kmsg_forged", 4, Health.UNKNOWN)
    assert directory.all() == []


@pytest.mark.asyncio
async def test_lost_records_are_told_as_unknown() -> None:
    (seen,) = await told(LogBatch(lost=12))
    assert (seen.check, seen.count, seen.health) == ("kmsg_gap", 12, Health.UNKNOWN)


@pytest.mark.asyncio
async def test_a_storm_is_told_as_a_few_with_all_counts() -> None:
    lines = [
        record(
            "NVRM: Xid (PCI:0000:3b:00): 95, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", n, at_s=5 + n / 1e4
        )
        for n in range(5_000)
    ]
    seen = await told(LogBatch(records=lines, drained=True))
    assert [each.count for each in seen] == [1, 4_999]
    assert len({each.attributes["seq"] for each in seen}) == 2


@pytest.mark.asyncio
async def test_nvlink5_lines_carry_the_driver_s_version_that_decodes_them() -> None:
    line = "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000)"
    (seen,) = await told(batch(line), driver="570.158.01")
    assert seen.attributes["driver_version"] == "570.158.01"
    (other,) = await told(batch("NVRM: Xid (PCI:0018:01:00): 79, off"), driver="570.158.01")
    assert "driver_version" not in other.attributes


@pytest.mark.asyncio
async def test_a_pcie_error_of_an_adapter_is_the_adapter_s() -> None:
    directory = Directory()
    directory.learn(DeviceIdentity(kind=DeviceKind.NIC, device_id="0x08c0eb0300112233", pci_bus_id="0000:17:00.0"))
    line = (
        "mlx5_core 0000:17:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)"
    )
    (seen,) = await told(batch(line), directory=directory)
    assert (seen.component, seen.component_id) == (Component.NIC, "0x08c0eb0300112233")

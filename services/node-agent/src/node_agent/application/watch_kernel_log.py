"""Tells what the kernel log says of this machine's devices, as it says it.

Lines become facts (domain.kernel_line); equal ones within a second are folded (domain.line_fold); the address becomes a
GPU (DeviceDirectory), the pid becomes pod, job and rank while the process is still there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from fault_contracts.health import Component
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.payload import Health
from node_agent.application.collector_ports import DeviceDirectory, Emit
from node_agent.domain.kernel_finding import GpuNamed, KernelFinding
from node_agent.domain.kernel_line import KernelLines
from node_agent.domain.kmsg_record import KERNEL_FACILITY, KmsgRecord
from node_agent.domain.line_fold import FoldedLine, LineFold
from node_agent.domain.nvlink5_line import NVLINK5_CODES
from node_agent.domain.observation import Observation
from node_agent.domain.process_owner import ProcessOwner, owner_of
from service_kit.logging import get_logger
from service_kit.ports import Clock

GAP_CHECK = "kmsg_gap"
FORGED_CHECK = "kmsg_forged"
SEQUENCE = "seq"
"""Attribute with the record's number within the boot: with the boot's id it names the observation for ever."""
_COMPONENTS = {DeviceKind.GPU: Component.GPU, DeviceKind.NIC: Component.NIC}

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch:
    """Records that may mean something, in their order.

    Attributes:
        old_before_us: records of an earlier time (since boot) were there before anybody watched; inf: all of them.
        lost: records that were overwritten before they were read.
        drained: nothing more is there to read now. A batch without records comes at least every second.
    """

    records: Sequence[KmsgRecord] = ()
    old_before_us: float = 0.0
    lost: int = 0
    drained: bool = False


class KernelLog(Protocol):
    """Where the records come from."""

    def batches(self) -> AsyncIterator[LogBatch]:
        """Until the machine has no (more) log, which the reader has said itself.

        Raises:
            CollectorFailed: reading failed and may work again later.
        """
        ...


class ProcessOwners(Protocol):
    """Who a process belongs to."""

    async def owner(self, pid: int) -> ProcessOwner:
        """What is known of it now; all empty when it is gone or may not be looked at. Never raises, never hangs."""
        ...


class KernelLogWatch:
    """application.collector_ports.EventSource."""

    name = "kmsg"

    def __init__(
        self,
        kernel_log: KernelLog,
        directory: DeviceDirectory,
        owners: ProcessOwners,
        clock: Clock,
        *,
        driver_version: Callable[[], str],
    ) -> None:
        self._log = kernel_log
        self._directory = directory
        self._owners = owners
        self._clock = clock
        self._driver_version = driver_version
        self._lines = KernelLines()
        self._fold = LineFold()

    async def run(self, emit: Emit) -> None:
        """Until cancelled, or until there is no log."""
        async for batch in self._log.batches():
            if batch.lost:
                emit(self._gap(batch.lost))
            forged = 0
            for record in batch.records:
                if record.facility != KERNEL_FACILITY:
                    # A reader of its own: what a program says must not become the address of the next true line.
                    forged += KernelLines().read(record.text) is not None
                    continue
                fact = self._lines.read(record.text)
                if isinstance(fact, KernelFinding):
                    told = self._fold.take(fact, record, old=record.since_boot_us < batch.old_before_us)
                    if told:
                        await self._tell(told, emit)
                elif fact is not None:
                    self._learn(fact)
            if forged:
                emit(self._forged(forged))
            if batch.drained:
                await self._tell(self._fold.due(int(self._clock.monotonic_s() * 1e6)), emit)
        await self._tell(self._fold.flush(), emit)

    async def _tell(self, lines: Sequence[FoldedLine], emit: Emit) -> None:
        for line in lines:
            emit(await self._observation(line))

    async def _observation(self, line: FoldedLine) -> Observation:
        finding = line.finding
        attributes = dict(finding.attributes) | {SEQUENCE: str(line.sequence)}
        component, component_id = finding.component, finding.device
        device = self._directory.at_pci(finding.device) if finding.device else None
        if device is not None and component is not Component.NVSWITCH:
            component, component_id = _COMPONENTS.get(device.kind, component), device.device_id
            attributes |= _identity(device)
        attributes |= await self._owner_attributes(finding, old=line.old)
        if finding.check in _NVLINK5_CHECKS and (version := self._driver_version()):
            attributes["driver_version"] = version
        return Observation(
            component=component,
            component_id=component_id,
            check=finding.check,
            health=finding.health,
            detail=finding.sentence,
            attributes=attributes,
            count=line.count,
            old=line.old,
            observed_at=self._clock.now() - timedelta(seconds=self._age_s(line.since_boot_us)),
        )

    async def _owner_attributes(self, finding: KernelFinding, *, old: bool) -> dict[str, str]:
        """An old line's pid may be another process by now; the cgroup in an OOM line is as true as the line."""
        in_line = owner_of(finding.attributes.get("task_memcg", "")).attributes()
        if finding.pid is None or old:
            return in_line
        return (await self._owners.owner(finding.pid)).attributes() | in_line

    def _age_s(self, since_boot_us: int) -> float:
        """0 for a time to come: a log file that somebody else writes may have any."""
        return max(0.0, self._clock.monotonic_s() - since_boot_us / 1e6)

    def _learn(self, fact: GpuNamed) -> None:
        known = self._directory.at_pci(fact.pci_bus_id)
        device_id = fact.gpu_uuid or ("" if known is None else known.device_id)
        if device_id:  # a serial number alone names no device
            self._directory.learn(
                DeviceIdentity(
                    kind=DeviceKind.GPU, device_id=device_id, pci_bus_id=fact.pci_bus_id, board_serial=fact.board_serial
                )
            )

    def _gap(self, lost: int) -> Observation:
        """Unknown, not bad: what was in the lost records nobody knows."""
        log.warning("kernel_log_gap", records=lost)
        detail = f"{lost} records of the kernel log were overwritten before they were read; a fault may be among them"
        return self._of_the_log(GAP_CHECK, detail, lost)

    def _forged(self, count: int) -> Observation:
        log.warning("kernel_log_forged", records=count)
        detail = f"{count} lines that look like a device's fault were written to the kernel log by a program: refused"
        return self._of_the_log(FORGED_CHECK, detail, count)

    def _of_the_log(self, check: str, detail: str, count: int) -> Observation:
        return Observation(
            component=Component.LOG, component_id="kmsg", check=check, health=Health.UNKNOWN, detail=detail,
            count=count, observed_at=self._clock.now(),
        )  # fmt: skip


_NVLINK5_CHECKS = frozenset(f"xid_{code}" for code in NVLINK5_CODES)


def _identity(device: DeviceIdentity) -> dict[str, str]:
    if device.kind is not DeviceKind.GPU:
        return {}
    serial = {"board_serial": device.board_serial} if device.board_serial else {}
    return {"gpu_uuid": device.device_id} | serial

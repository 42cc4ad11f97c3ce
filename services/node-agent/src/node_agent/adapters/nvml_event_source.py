"""Xids and the driver's wishes as NVML's events tell them, held against what the kernel log tells (xid_witness.py).

The child is one of its own, because waiting for an event occupies it. Whoever wires the host role passes on what the
kernel log's source emits: `heard`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.adapters.nvml_process import ChildGone, Children, NvmlProcess
from node_agent.adapters.pci_gpus import PCI_DEVICES, gpus_on_bus
from node_agent.application.collector_ports import CollectorFailed, DeviceDirectory, Emit
from node_agent.domain import nvml_access
from node_agent.domain.gpu_reading import code_name
from node_agent.domain.observation import Observation
from node_agent.domain.pci_address import pci_address
from node_agent.domain.recovery_action import ATTRIBUTE, recovery_action
from node_agent.domain.xid_witness import XidEvent, XidWitness
from service_kit.logging import get_logger
from service_kit.ports import Clock

FIRST_ANSWER_S = 30.0
"""nvmlInit; as for a look."""
SILENCE_S = 30.0
"""The child says every second that it waits. Longer than this: it hangs in the driver."""
XID_PREFIX = "xid_"

log = get_logger(__name__)


class NvmlEventSource:
    """EventSource `nvml_events`."""

    def __init__(
        self,
        *,
        directory: DeviceDirectory,
        clock: Clock,
        library: str = "",
        pci_devices: Path = PCI_DEVICES,
        children: Children | None = None,
        witness: XidWitness | None = None,
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._library = library
        self._pci_devices = pci_devices
        self._children = children or Children()
        self._witness = witness or XidWitness()

    @property
    def name(self) -> str:
        """Slug."""
        return "nvml_events"

    def heard(self, observation: Observation) -> None:
        """The kernel log tells something: an Xid that NVML tells too is not told twice."""
        code = observation.check.removeprefix(XID_PREFIX)
        if observation.component is not Component.GPU or code == observation.check or not code.isdecimal():
            return
        devices = {observation.component_id, observation.attributes.get("pci_bus_id", "")}
        self._witness.kernel_told(self._names(devices), int(code), now_s=self._clock.monotonic_s())

    async def run(self, emit: Emit) -> None:
        """Until cancelled, or until it is clear that there is nothing to wait for.

        Raises:
            CollectorFailed: the child ended or hangs, or the driver refused.
        """
        if not self._children.may_start:
            raise CollectorFailed(f"{self._children.left} processes that read NVML hang in the driver; none is added")
        arguments = ["--events", *(["--library", self._library] if self._library else [])]
        child = NvmlProcess(self._children, arguments=arguments)
        try:
            await child.start()
            if await self._watching(child):
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._let_go(emit))
                    tasks.create_task(self._receive(child, emit))
        except* OSError as group:
            raise CollectorFailed(f"no process for the events of NVML: {group.exceptions[0]}") from group
        except* ChildGone as group:
            raise CollectorFailed(str(group.exceptions[0])) from group
        except* TimeoutError as group:
            raise CollectorFailed("the process that waits for NVML's events does not come back") from group
        finally:
            await child.end()

    async def _watching(self, child: NvmlProcess) -> bool:
        frame = await child.receive(limit_s=FIRST_ANSWER_S)
        if "refused" in frame:
            code, call = int(frame["refused"]["code"]), str(frame["refused"]["call"])
            if nvml_access.has_no_gpu(code, gpus_on_bus(self._pci_devices)):
                return False  # the collector says so, once
            raise ChildGone(f"no events of NVML: {call} says {code_name(code)}")
        watched = int(frame["watching"])
        log.info("nvml_events_watched", gpus=watched)
        return watched > 0

    async def _receive(self, child: NvmlProcess, emit: Emit) -> None:
        while True:
            frame = await child.receive(limit_s=SILENCE_S)
            if "refused" in frame:
                raise ChildGone(f"the events of NVML end: {code_name(int(frame['refused']['code']))}")
            if "event" in frame:
                self._event(frame["event"], emit)

    def _event(self, said: dict[str, Any], emit: Emit) -> None:
        devices = self._names({str(said.get("uuid", "")), pci_address(str(said.get("pci", ""))) or ""})
        if not devices:
            log.warning("event_of_unknown_gpu", said=str(said)[:200])
            return
        if said["kind"] == "recovery_action":
            emit(self._wish(devices, int(said["action"])))
            return
        event = XidEvent(
            devices=devices,
            code=int(said["code"]),
            gpu_instance=said.get("gpu_instance"),
            compute_instance=said.get("compute_instance"),
        )
        self._witness.nvml_told(event, now_s=self._clock.monotonic_s())

    async def _let_go(self, emit: Emit) -> None:
        """Tell what the kernel log has not told in time."""
        while True:
            now_s = self._clock.monotonic_s()
            for event in self._witness.due(now_s):
                emit(self._xid(event))
            due_s = self._witness.next_due_s()
            # Nothing is due sooner than what comes now will be.
            await self._clock.sleep(self._witness.held_s if due_s is None else max(0.01, due_s - now_s))

    def _xid(self, event: XidEvent) -> Observation:
        uuid, address = self._identity(event.devices)
        attributes = {"xid": str(event.code), "witness": "nvml", "pci_bus_id": address}
        if event.gpu_instance is not None:
            attributes["gpu_instance"] = str(event.gpu_instance)
        if event.compute_instance is not None:
            attributes["compute_instance"] = str(event.compute_instance)
        return Observation(
            component=Component.GPU,
            component_id=uuid or address,
            check=f"{XID_PREFIX}{event.code}",
            health=Health.BAD,
            detail=f"Xid {event.code}, told by NVML; the kernel log has not told it",
            attributes={name: text for name, text in attributes.items() if text},
            count=event.count,
            observed_at=self._clock.now(),
        )

    def _wish(self, devices: frozenset[str], value: int) -> Observation:
        uuid, address = self._identity(devices)
        action = recovery_action(value)
        return Observation(
            component=Component.GPU,
            component_id=uuid or address,
            check="gpu_recovery_action",
            health=Health.BAD if value else Health.OK,
            detail=f"the driver wants: {action.replace('_', ' ')}" if value else "the driver wants nothing",
            values={"action": float(value)},
            attributes={ATTRIBUTE: action, "witness": "nvml", **({"pci_bus_id": address} if address else {})},
            observed_at=self._clock.now(),
        )

    def _names(self, told: set[str]) -> frozenset[str]:
        """Every name of the GPU that goes by one of these."""
        names = {pci_address(name) or name for name in told if name}
        for device in self._directory.all():
            if device.device_id in names or (device.pci_bus_id and device.pci_bus_id in names):
                names |= {device.device_id, device.pci_bus_id}
        return frozenset(names - {""})

    def _identity(self, names: frozenset[str]) -> tuple[str, str]:
        """By uuid and by address, as far as they are known."""
        addresses = [name for name in names if pci_address(name)]
        uuids = [name for name in names if not pci_address(name)]
        return (min(uuids, default=""), min(addresses, default=""))

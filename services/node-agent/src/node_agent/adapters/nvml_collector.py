"""Looks at the GPUs through NVML, in a child process, so that a sick driver cannot stop the agent.

A quick look every 5 s (temperature, power, clocks, the driver's wish, lost), a full one every 30 s. A GPU whose calls
do not come back costs the child: the next one leaves that GPU out and reads the others, in the same look; the sick one
is tried again after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from node_agent.adapters.nvml_process import Children
from node_agent.adapters.nvml_rounds import Look, NvmlRounds, Refused, RoundLimits
from node_agent.adapters.nvml_wire import identity_of
from node_agent.adapters.pci_gpus import PCI_DEVICES, gpus_on_bus
from node_agent.application.collector_ports import CollectorFailed, DeviceDirectory
from node_agent.domain import nvml_access
from node_agent.domain.gpu_health import Expected, Memory, judge_machine
from node_agent.domain.gpu_reading import MachineReading, NvmlCode, code_name
from node_agent.domain.nvml_access import Hang
from node_agent.domain.observation import Observation
from service_kit.logging import get_logger
from service_kit.ports import Clock

DEADLINE_SLACK_S = 10.0
"""Over its own limit, which it keeps by itself: the runner's deadline is for when this module is wrong."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlLimits:
    """How often, and how long.

    Attributes:
        interval_s: between quick looks. 5 to 10 s is enough for the driver's wish and the clocks.
        whole_every_s: between full looks.
        absent_again_s: on a machine without a GPU, between two questions whether there is one now.
    """

    interval_s: float = 5.0
    whole_every_s: float = 30.0
    absent_again_s: float = 600.0
    rounds: RoundLimits = field(default_factory=RoundLimits)


class NvmlCollector:
    """Collector `nvml`. `required`: this machine is said to have GPUs, so that finding none is a finding."""

    def __init__(
        self,
        *,
        directory: DeviceDirectory,
        clock: Clock,
        library: str = "",
        expected: Expected | None = None,
        required: bool = False,
        pci_devices: Path = PCI_DEVICES,
        limits: NvmlLimits | None = None,
        children: Children | None = None,
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._expected = expected or Expected()
        self._required = required or bool(self._expected.gpus)
        self._pci_devices = pci_devices
        self._limits = limits or NvmlLimits()
        self._children = children or Children()
        self._rounds = NvmlRounds(children=self._children, library=library, clock=clock, limits=self._limits.rounds)
        self._memory = Memory()
        self._whole_next_s = 0.0
        self._absent_until_s = 0.0
        self._failed = ""
        self._said_absent = False
        self._said_missing: set[str] = set()
        self._driver_version = ""
        self._one_at_a_time = asyncio.Lock()

    @property
    def name(self) -> str:
        """Slug."""
        return "nvml"

    @property
    def interval_s(self) -> float:
        """Of quick looks."""
        return self._limits.interval_s

    @property
    def deadline_s(self) -> float:
        """Of one look."""
        return self._limits.rounds.look_s + DEADLINE_SLACK_S

    @property
    def driver_version(self) -> str:
        """Of the NVIDIA driver, once it is known."""
        return self._driver_version

    @property
    def child_pid(self) -> int | None:
        """Of the process that asks."""
        return self._rounds.child_pid

    async def collect(self) -> Sequence[Observation]:
        """One look.

        Raises:
            CollectorFailed: no process could be started, or it ended by itself.
        """
        async with self._one_at_a_time:
            now_s = self._clock.monotonic_s()
            if now_s < self._absent_until_s:
                return ()
            whole = now_s >= self._whole_next_s
            if not whole and self._rounds.child_pid is None:
                # What made it end is told by the full looks; a start every few seconds would cost too much.
                if self._failed:
                    raise CollectorFailed(self._failed)
                return ()
            if whole:
                self._whole_next_s = now_s + self._limits.whole_every_s
            if (hung := self._rounds.driver_hung) is not None:
                return list(nvml_access.hangs([hung], self._children.left, self._clock.now()))
            self._failed = ""
            try:
                look = await self._rounds.look(whole=whole, known=self._memory.seen.values())
            except CollectorFailed as error:
                self._failed = str(error)
                raise
            return self._judged(look)

    async def close(self) -> None:
        """End the child."""
        await self._rounds.end_child()

    def _judged(self, look: Look) -> list[Observation]:
        at = self._clock.now()
        on_bus = gpus_on_bus(self._pci_devices) if look.whole else None
        if look.refused is not None:
            return self._of_refusal(look.refused, on_bus)
        left = self._children.left
        hangs = {hang.index: hang for hang in (*self._rounds.hung, *look.hangs)}
        told = list(nvml_access.hangs(tuple(hangs.values()), left, at))
        if look.machine is None:
            return told if self._children.may_start else [nvml_access.exhausted(left, at)]
        self._said_absent = False
        reading = MachineReading(
            count=int(look.machine["count"]),
            driver_version=str(look.machine.get("driver_version", "")),
            nvml_version=str(look.machine.get("nvml_version", "")),
            whole=look.whole,
            gpus=tuple(look.gpus[index] for index in sorted(look.gpus)),
            not_read=self._not_read(hangs.values()),
        )
        self._driver_version = reading.driver_version
        expected = replace(self._expected, gpus_on_bus=None if on_bus is None else len(on_bus))
        found, self._memory = judge_machine(reading, self._memory, expected, at)
        self._learn(reading)
        told += found
        if look.whole:
            told += nvml_access.works(reading.driver_version, reading.nvml_version, at)
        if None not in hangs:
            told += nvml_access.answers([(gpu.component_id, gpu.pci_bus_id) for gpu in reading.gpus], at)
        return told

    def _of_refusal(self, refused: Refused, on_bus: Sequence[str] | None) -> list[Observation]:
        if nvml_access.has_no_gpu(refused.code, on_bus) and not self._required:
            self._absent_until_s = self._clock.monotonic_s() + self._limits.absent_again_s
            if not self._said_absent:
                log.info("no_gpu", nvml=code_name(refused.code), on_bus=0 if on_bus is not None else "unknown")
            self._said_absent = True
            return []
        return list(nvml_access.refused(refused.code, refused.call, on_bus, self._clock.now()))

    def _not_read(self, hangs: Iterable[Hang]) -> frozenset[str]:
        """Addresses that this look did not get to; all that are known, when it was cut short."""
        if self._rounds.driver_hung is not None:
            return frozenset(gpu.pci_bus_id for gpu in self._memory.seen.values())
        return frozenset(hang.pci_bus_id for hang in hangs)

    def _learn(self, reading: MachineReading) -> None:
        for gpu in reading.gpus:
            device = identity_of(gpu)
            if device is not None and gpu.lost is None:
                self._directory.learn(device)
            for name, code in gpu.errors.items():
                if code == NvmlCode.FUNCTION_NOT_FOUND and name not in self._said_missing:
                    self._said_missing.add(name)
                    log.info("driver_cannot_tell", what=name, driver_version=reading.driver_version)

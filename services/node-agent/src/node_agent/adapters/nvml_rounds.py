"""One look at all GPUs, in as many rounds as it takes: a child that hangs over a GPU is followed by one without it.

Knows how long to wait and whom to leave alone; what the answers mean is judged elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from node_agent.adapters.nvml_process import ChildGone, Children, NvmlProcess
from node_agent.adapters.nvml_wire import MalformedAnswer, gpu_reading
from node_agent.application.collector_ports import CollectorFailed
from node_agent.domain.gpu_reading import GpuReading
from node_agent.domain.nvml_access import Hang
from node_agent.domain.pci_address import pci_address
from service_kit.logging import get_logger
from service_kit.ports import Clock

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLimits:
    """How long to wait.

    Attributes:
        first_answer_s: for nvmlInit and the count. Without the persistence daemon the driver starts every GPU then,
            which takes seconds each.
        gpu_s: for all calls of one GPU. They take milliseconds; the longest waits of a healthy driver are its own
            timeouts of a few seconds (Xid 119: 6 s for an answer of the GPU's firmware).
        look_s: for a look with all its rounds.
        hung_again_s: how long a GPU, or a driver, that did not answer is left alone.
    """

    first_answer_s: float = 30.0
    gpu_s: float = 10.0
    look_s: float = 60.0
    hung_again_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """NVML as a whole said no."""

    call: str
    code: int


@dataclass(slots=True, kw_only=True)
class Look:
    """What one look has so far.

    Attributes:
        machine: what is said of all GPUs together; None: nothing was said.
        hangs: calls of this look that did not come back.
        left_out: what the children of this look are told to leave alone, because others hung over it.
    """

    whole: bool
    machine: dict[str, Any] | None = None
    gpus: dict[int, GpuReading] = field(default_factory=dict)
    refused: Refused | None = None
    hangs: list[Hang] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)


class NvmlRounds:
    """Asks children. Not for two looks at a time."""

    def __init__(self, *, children: Children, library: str, clock: Clock, limits: RoundLimits) -> None:
        self._children = children
        self._clock = clock
        self._limits = limits
        self._child = NvmlProcess(children, arguments=["--library", library] if library else [])
        self._hung: dict[str, tuple[Hang, float]] = {}
        self._driver_hung: tuple[Hang, float] | None = None
        self._number = 0

    @property
    def child_pid(self) -> int | None:
        """Of the living child."""
        return self._child.pid

    @property
    def hung(self) -> tuple[Hang, ...]:
        """GPUs that are left alone now."""
        return tuple(hang for hang, _ in self._hung.values())

    @property
    def driver_hung(self) -> Hang | None:
        """The driver as a whole is left alone now."""
        if self._driver_hung is not None and self._clock.monotonic_s() >= self._driver_hung[1]:
            self._driver_hung = None
        return self._driver_hung[0] if self._driver_hung is not None else None

    async def look(self, *, whole: bool, known: Iterable[GpuReading]) -> Look:
        """Ask for everything, or for what changes quickly.

        Args:
            whole: everything.
            known: GPUs as they were last seen, to name the one that hangs before it has said who it is.

        Raises:
            CollectorFailed: no process could be started, or it ended by itself.
        """
        look, by_index = Look(whole=whole), {gpu.index: gpu for gpu in known}
        try:
            async with asyncio.timeout(self._limits.look_s):
                while not await self._round(look, by_index):
                    continue
        except TimeoutError:
            self._driver_hangs(look, self._limits.look_s)
            await self.end_child()
        except asyncio.CancelledError:
            await self.end_child()
            raise
        return look

    async def end_child(self) -> None:
        """The next look starts another one."""
        await self._child.end()

    async def _round(self, look: Look, known: dict[int, GpuReading]) -> bool:
        """Ask one child until it is done or hangs; False: the next one is to be asked for the others."""
        is_new = self._child.pid is None
        if is_new:
            if not self._children.may_start:
                return True
            try:
                await self._child.start()
            except OSError as error:
                raise CollectorFailed(f"no process to ask NVML: {error.strerror or error}") from error
        self._number += 1
        reading: Hang | None = None
        heard = False
        limit_s = self._limits.first_answer_s
        try:
            await self._child.send({"look": self._number, "whole": look.whole, "skip": self._left_alone(look)})
            while True:
                frame = await self._child.receive(limit_s=limit_s)
                heard = True
                if frame.get("look") != self._number:
                    continue
                if frame.get("done"):
                    return True
                limit_s = self._limits.gpu_s
                if "reading" in frame:
                    reading = self._begun(frame["reading"], known)
                elif "refused" in frame:
                    refused = frame["refused"]
                    look.refused = Refused(call=str(refused["call"]), code=int(refused["code"]))
                    await self.end_child()
                    return True
                elif "machine" in frame:
                    look.machine = frame["machine"]
                elif "gpu" in frame:
                    gpu = gpu_reading(frame["gpu"])
                    look.gpus[gpu.index] = gpu
        except TimeoutError:
            await self.end_child()
            return self._hangs(look, reading)
        except ChildGone as error:
            await self.end_child()
            if is_new or heard:
                raise CollectorFailed(str(error)) from error
            # It died between two looks, of whatever; that is no reason to be blind for this one.
            log.warning("nvml_child_ended", reason=str(error))
            return False
        except (MalformedAnswer, KeyError, TypeError, ValueError) as error:
            await self.end_child()
            raise CollectorFailed(str(error)) from error

    def _begun(self, about: dict[str, Any], known: dict[int, GpuReading]) -> Hang:
        index = int(about["index"])
        address, uuid = pci_address(str(about.get("pci_bus_id", ""))) or "", str(about.get("uuid", ""))
        if not address and index in known:
            # A fresh child has not asked it yet; whoever sat at this index before does still.
            address, uuid = known[index].pci_bus_id, known[index].uuid
        return Hang(pci_bus_id=address, uuid=uuid, index=index, limit_s=self._limits.gpu_s)

    def _hangs(self, look: Look, reading: Hang | None) -> bool:
        """Leave a GPU alone from now on. True: it is not known which, and the look is over."""
        if reading is None or reading.index in look.gpus:
            self._driver_hangs(look, self._limits.first_answer_s)
            return True
        # A GPU that cannot even be opened does not say its address to a fresh child: then by its place.
        by_place = not reading.pci_bus_id or reading.pci_bus_id in look.left_out
        key = f"#{reading.index}" if by_place else reading.pci_bus_id
        look.hangs.append(reading)
        look.left_out.add(key)
        self._hung[key] = (reading, self._clock.monotonic_s() + self._limits.hung_again_s)
        log.error("gpu_hangs", pci_bus_id=reading.pci_bus_id, gpu_uuid=reading.uuid, limit_s=reading.limit_s)
        return False

    def _driver_hangs(self, look: Look, limit_s: float) -> None:
        hang = Hang(limit_s=limit_s)
        look.hangs.append(hang)
        self._driver_hung = (hang, self._clock.monotonic_s() + self._limits.hung_again_s)
        log.error("nvml_hangs", limit_s=limit_s)

    def _left_alone(self, look: Look) -> list[str]:
        now_s = self._clock.monotonic_s()
        self._hung = {key: held for key, held in self._hung.items() if held[1] > now_s}
        look.left_out |= self._hung.keys()
        return sorted(look.left_out)

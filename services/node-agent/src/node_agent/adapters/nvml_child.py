"""The process that asks NVML, because a sick driver may never answer: `python -m node_agent.adapters.nvml_child`.

Its standard input is a socket: frames in, frames out (worker_link.frames). It answers one request after the other:

    {"look": 7, "whole": true, "skip": ["0000:13:00", "#5"]}    GPUs to leave alone, by address or by index
    -> {"look": 7, "machine": {...}}
    -> {"look": 7, "reading": {"index": 0, "pci_bus_id": "0000:10:00", "uuid": "GPU-..."}}    before each GPU
    -> {"look": 7, "gpu": {...}}                                                              after it
    -> {"look": 7, "done": true}
    or {"look": 7, "refused": {"call": "nvmlInit", "code": 9}}

With `--events` it takes no requests and tells events: {"event": {"kind": "xid", "code": 94, ...}}. It ends when the
other end of the socket does. The agent's own modules stay out of it, so that it costs little: pynvml, and the frames.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pynvml as nvml

from node_agent.adapters import nvml_calls, nvml_events
from worker_link.frames import FrameReader, encode
from worker_link.linux import die_with_parent

MAX_FRAME_BYTES = 256 * 1024
"""The largest frame is one GPU: eighteen links with nine counters, some 4 KB."""
GPUS_MAX = 64
INFOROM_LOOKS = 120
"""Full looks between two checks of the InfoROM: an hour. It is read from flash, and changes when somebody writes it."""
Identity = dict[str, str]


class Link:
    """The agent's end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reader = FrameReader(max_bytes=MAX_FRAME_BYTES)

    def send(self, message: dict[str, Any]) -> None:
        """Blocks until the kernel has it: the agent reads, or has gone."""
        self._connection.sendall(encode(message, max_bytes=MAX_FRAME_BYTES))

    def requests(self) -> Iterator[dict[str, Any]]:
        """Until the agent closes its end."""
        while True:
            request = self._reader.next_message()
            if request is not None:
                yield request
                continue
            data = self._connection.recv(65_536)
            if not data:
                return
            self._reader.receive_data(data)


class Nvml:
    """The library: opened when it is first needed, and again after it failed to open."""

    def __init__(self) -> None:
        self._open = False
        self._identities: dict[int, Identity] = {}
        self._inforoms: dict[str, tuple[int, int]] = {}

    def open(self) -> None:
        """Initialise.

        Raises:
            nvml.NVMLError: no library, no driver, the wrong one.
        """
        if not self._open:
            nvml.nvmlInit()
            self._open = True

    def machine(self) -> dict[str, Any]:
        """What is said of all GPUs together."""
        return {
            "count": nvml.nvmlDeviceGetCount(),
            "driver_version": _text(nvml.nvmlSystemGetDriverVersion),
            "nvml_version": _text(nvml.nvmlSystemGetNVMLVersion),
        }

    def handle(self, index: int) -> Any:
        """The GPU at an index, now.

        Raises:
            nvml.NVMLError: it cannot be opened.
        """
        return nvml.nvmlDeviceGetHandleByIndex(index)

    def identity(self, index: int, handle: Any = None) -> Identity:
        """Who it is; asked once, then remembered, because a lost GPU can no longer say it."""
        if handle is not None and index not in self._identities:
            known = _identity(handle)
            if known.get("uuid"):
                self._identities[index] = known
            return known
        return self._identities.get(index, {})

    def inforom(self, uuid: str, handle: Any) -> int:
        """The check of the board's store, as nvmlReturn: asked now and then, and remembered in between."""
        looks_left, code = self._inforoms.get(uuid, (0, 0))
        if not looks_left:
            looks_left, code = INFOROM_LOOKS, nvml_calls.inforom(handle)
        self._inforoms[uuid] = (looks_left - 1, code)
        return code

    def forget(self) -> None:
        """The number of GPUs changed, and with it who sits at which index."""
        self._identities.clear()


def answer(link: Link, library: Nvml, request: dict[str, Any], count_before: int | None) -> int | None:
    """One look; returns the number of GPUs."""
    look = request["look"]
    try:
        call = "nvmlInit"
        library.open()
        call = "nvmlDeviceGetCount"
        machine = library.machine()
    except nvml.NVMLError as error:
        link.send({"look": look, "refused": {"call": call, "code": error.value}})
        return count_before
    if count_before is not None and machine["count"] != count_before:
        library.forget()
    link.send({"look": look, "machine": machine})
    skip = set(request.get("skip", ()))
    for index in range(min(machine["count"], GPUS_MAX)):
        known = library.identity(index)
        if known.get("pci_bus_id") in skip or f"#{index}" in skip:
            continue
        about = {"index": index, "pci_bus_id": known.get("pci_bus_id", ""), "uuid": known.get("uuid", "")}
        link.send({"look": look, "reading": about})
        gpu = _gpu(library, index, whole=bool(request.get("whole")), skip=skip)
        if gpu is not None:
            link.send({"look": look, "gpu": gpu})
    link.send({"look": look, "done": True})
    return int(machine["count"])


def _gpu(library: Nvml, index: int, *, whole: bool, skip: set[str]) -> dict[str, Any] | None:
    """Everything of one GPU; None when its address turns out to be one that is to be left alone."""
    try:
        handle = library.handle(index)
        address = nvml.nvmlDeviceGetPciInfo(handle).busId
        if _slot(address) in skip:
            return None
        identity = library.identity(index, handle)
        said = nvml_calls.whole(handle) if whole else nvml_calls.quick(handle)
        if whole:
            code = library.inforom(identity.get("uuid", ""), handle)
            said.numbers["inforom"] = 1
            if code:
                del said.numbers["inforom"]
                said.errors["inforom"] = code
    except nvml_calls.GpuIsLost as error:
        return {"index": index, "identity": library.identity(index), "lost": error.code}
    except nvml.NVMLError as error:
        return {"index": index, "identity": library.identity(index), "lost": error.value}
    return {
        "index": index,
        "identity": identity,
        "numbers": said.numbers,
        "by_link": said.by_link,
        "slices": said.slices,
        "pids": said.pids,
        "errors": said.errors,
    }


def _identity(handle: Any) -> Identity:
    pci = nvml.nvmlDeviceGetPciInfo(handle)
    known = {
        "pci_bus_id": _slot(pci.busId),
        "pci_vendor_data": ":".join(
            f"{half:04x}" for pair in (pci.pciDeviceId, pci.pciSubSystemId) for half in (pair & 0xFFFF, pair >> 16)
        ),
        "uuid": _text(nvml.nvmlDeviceGetUUID, handle),
        "serial": _text(nvml.nvmlDeviceGetSerial, handle),
        "board_part_number": _text(nvml.nvmlDeviceGetBoardPartNumber, handle),
        "name": _text(nvml.nvmlDeviceGetName, handle),
        "minor": _text(nvml.nvmlDeviceGetMinorNumber, handle),
    }
    return {name: text for name, text in known.items() if text}


def _slot(bus_id: str) -> str:
    """`00000000:3B:00.0` as the kernel log writes it; the agent reads any spelling, and compares this one."""
    domain, bus, rest = bus_id.lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{rest.partition('.')[0]}"


def _text(call: Any, *arguments: object) -> str:
    try:
        return str(call(*arguments))
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return ""  # this model has no serial number, this driver no such function: nothing is known


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="nvml_child")
    parser.add_argument("--library", default="", help="path of libnvidia-ml.so.1; default: as the loader finds it")
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--parent", type=int, required=True)
    arguments = parser.parse_args()
    connection = socket.socket(fileno=os.dup(0))
    # Whatever the library prints must not end up between frames.
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at the terminal is for the agent, which closes the socket
    if not die_with_parent(arguments.parent, signal.SIGKILL):
        return 0
    if arguments.library:
        try:
            nvml.nvmlLib = ctypes.CDLL(arguments.library)
        except OSError as error:
            print(f"nvml_child: {error}", file=sys.stderr)  # noqa: T201 - the agent's log takes it up
            # pynvml now looks where the loader looks, and says LIBRARY_NOT_FOUND when there is none either.
    link, library = Link(connection), Nvml()
    try:
        if arguments.events:
            nvml_events.tell(library.open, link.send)
            return 0
        count: int | None = None
        for request in link.requests():
            count = answer(link, library, request, count)
    except (BrokenPipeError, ConnectionResetError):
        return 0  # the agent has gone
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The block's own connection to the agent, and the helper thread that reads it.

Apart from the link for reports, because these messages may wait (a barrier) and must not be lost. What arrives is kept
as levels, never as a queue that somebody drains: an order for an older version changes nothing, and one that comes
before anybody waits for it is found when somebody does.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable

from worker_link.block_messages import Abort, AtBarrier, BlockMessage, Go
from worker_link.frames import FrameError, FrameReader, encode
from worker_link.message_fields import MessageError
from worker_link.messages import Hello, from_wire, to_wire
from worker_link.standstill import Standstill
from worker_link.strike import StrikeGate

STRIKE_AGAIN_S = 1.0
"""Time for the user's `finally` blocks before the next exception; a strike that was swallowed costs this much."""
SEND_S_MAX = 5.0
"""The agent reads all the time; one that does not for so long is stopped or gone, and so will this rank be."""


class ChannelLost(RuntimeError):
    """The agent ended the connection: this process cannot restart in place any more."""


class BlockChannel:
    """One connection for the life of the process."""

    def __init__(self, *, path: str, rank: int, topology_version: int, token: str, gate: StrikeGate) -> None:
        self._gate = gate
        self._news = threading.Condition()
        self._sending = threading.Lock()
        self._go: Go | None = None
        self._lost = ""
        self._unblock: Callable[[int], None] = lambda _version: None
        self._unblock_again: Callable[[int], None] = self._unblock
        self._standstill = Standstill()
        self.pid = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(SEND_S_MAX)
        self._socket.connect(path)
        self._write(encode(to_wire(Hello(rank=rank, pid=self.pid, token=token, topology_version=topology_version))))
        threading.Thread(target=self._read, name="worker-link-block", daemon=True).start()

    def on_abort(self, first: Callable[[int], None], again: Callable[[int], None]) -> None:
        """Set what unblocks the training thread, called after each strike: `first`, and from the second on `again`."""
        self._unblock, self._unblock_again = first, again

    def send(self, message: BlockMessage) -> None:
        """Send, and wait until it is in the socket.

        Raises:
            ChannelLost: the agent is gone or does not read.
        """
        self._write(encode(to_wire(message)))

    def wait_go(self, newer_than: int, *, timeout_s: float) -> Go:
        """Wait for the barrier to open for a version newer than the one that was left.

        Raises:
            ChannelLost: the agent is gone, or the time is over.
        """
        with self._news:
            arrived = self._news.wait_for(lambda: self._newer(newer_than) or self._lost, timeout=timeout_s)
            found = self._newer(newer_than)
            if found is not None:
                return found
            raise ChannelLost(self._lost if arrived else f"the barrier did not open within {timeout_s:g} s")

    def _newer(self, version: int) -> Go | None:
        go = self._go
        return go if go is not None and go.topology_version > version else None

    def _write(self, frame: bytes) -> None:
        try:
            with self._sending:
                self._socket.sendall(frame)
        except OSError as error:
            raise ChannelLost(f"the agent cannot be reached: {error}") from error

    # ------------------------------------------------------------------------------------------- helper thread

    def _read(self) -> None:
        reader = FrameReader()
        striking: int | None = None
        again_at_s = 0.0
        try:
            while True:
                wait_s = None if striking is None else max(0.0, again_at_s - time.monotonic())
                if select.select([self._socket], [], [], wait_s)[0]:
                    data = self._socket.recv(65536)
                    if not data:
                        raise ChannelLost("the agent ended the connection")
                    reader.receive_data(data)
                    while (wire := reader.next_message()) is not None:
                        version = self._take(from_wire(wire))
                        if version is not None:
                            striking, again_at_s = version, time.monotonic() + STRIKE_AGAIN_S
                elif striking is not None:
                    # Whoever swallowed the exception may wait in a new collective by now.
                    again_at_s = time.monotonic() + STRIKE_AGAIN_S
                    if self._gate.strike(striking):
                        self._unblock_again(striking)
                        self._tell_standstill(striking)
                    else:
                        striking = None
        except (ChannelLost, OSError, FrameError, MessageError) as error:
            with self._news:
                self._lost = str(error) or type(error).__name__
                self._news.notify_all()

    def _tell_standstill(self, version: int) -> None:
        """A rank that nothing can free is not fit to go on; the others need not wait for it at the barrier."""
        place = self._standstill.look(self._gate.thread_id, version)
        if place:
            reason = f"its training thread does not come back from {place}, although everything there was aborted"
            self.send(AtBarrier(topology_version=version, healthy=False, reason=reason))

    def _take(self, message: object) -> int | None:
        """Returns the version that somebody has to be struck out of."""
        if isinstance(message, Go):
            with self._news:
                if self._newer_than_known(message):
                    self._go = message
                    self._news.notify_all()
        elif isinstance(message, Abort) and self._gate.abort(message.topology_version):
            self._unblock(message.topology_version)
            return message.topology_version
        return None

    def _newer_than_known(self, go: Go) -> bool:
        return self._go is None or go.topology_version > self._go.topology_version

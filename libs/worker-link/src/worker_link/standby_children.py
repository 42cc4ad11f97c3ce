"""Children forked ahead of need, so that a restart does not wait for fork.

Forking a process that has torch imported takes 8 to 40 ms, and a gang's ranks are forked one after the other. After a
start the nursery forks as many children again while nothing else happens; each waits on its own socket for an order.
Their pages are the nursery's (copy on write). A child that is not needed costs a wait in the kernel.
"""

from __future__ import annotations

import os
import signal
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from worker_link.frames import FrameError, FrameReader, encode
from worker_link.linux import die_with_parent, name_process

STANDBY_MAX = 64
"""More ranks than any node has GPUs today (16); a node with more forks the rest on demand."""

_TAKEN = b"\x06"
"""What a child answers once it holds its whole order (ASCII: acknowledge)."""

_ANSWER_TIME_S_MAX = 2.0
"""A child that waits answers within a millisecond; one that was stopped from outside must not hold up the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Awakened:
    """In a child: the order it waited for, with its descriptors, and the socket that it came on."""

    order: dict[str, Any]
    fds: list[int]
    socket_fd: int


class StandbyChildren:
    """The children that wait. Owned by the nursery's one thread."""

    def __init__(self, *, frame_bytes_max: int, fds_per_order: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._fds_per_order = fds_per_order
        self._waiting: deque[tuple[int, socket.socket]] = deque()
        self.wanted = 0

    @property
    def is_short(self) -> bool:
        """Whether another child should be forked when there is time."""
        return len(self._waiting) < min(self.wanted, STANDBY_MAX)

    def fork(self, *, nursery_fds: Sequence[int]) -> Awakened | None:
        """Fork one child; returns in the child only when its order has come, in the nursery at once with None.

        Args:
            nursery_fds: what the child closes at once: the agent must see the nursery's end, whoever waits.

        Raises:
            OSError: the kernel refuses another process or socket.
        """
        ours, theirs = socket.socketpair()
        nursery_pid = os.getpid()
        # Blocked over the fork: a signal for the child must meet the child's handlers, not the nursery's.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                ours.close()
                return self._wait(theirs, nursery_pid, nursery_fds)
        except OSError:
            ours.close()
            raise
        finally:
            if os.getpid() == nursery_pid:
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                theirs.close()
        self._waiting.append((pid, ours))
        return None

    def hand_over(self, order: dict[str, Any], fds: Sequence[int]) -> int | None:
        """Give an order to a waiting child; its pid, or None when none could take it.

        A child says when it has the order: the kernel also takes bytes for a child that is being killed, and the
        start of that rank would be lost.
        """
        raw = encode(order, max_bytes=self._frame_bytes_max)
        while self._waiting:
            pid, to_child = self._waiting.popleft()
            with to_child:
                if self._take(to_child, raw, fds):
                    return pid
            # Whatever it does now, it must not carry out an order that another child gets. A zombie is not hurt; the
            # nursery reaps it like any other.
            os.kill(pid, signal.SIGKILL)
        return None

    def _take(self, to_child: socket.socket, raw: bytes, fds: Sequence[int]) -> bool:
        try:
            to_child.settimeout(_ANSWER_TIME_S_MAX)
            sent = socket.send_fds(to_child, [raw], list(fds))
            if sent < len(raw):
                to_child.sendall(raw[sent:])
            return to_child.recv(len(_TAKEN)) == _TAKEN
        except OSError:  # killed before it had the whole order, or silent for too long
            return False

    def forget(self, pid: int) -> None:
        """A child was reaped: it must not be given an order."""
        for place, (waiting, to_child) in enumerate(self._waiting):
            if waiting == pid:
                to_child.close()
                del self._waiting[place]
                return

    def _wait(self, orders: socket.socket, nursery_pid: int, nursery_fds: Sequence[int]) -> Awakened:
        """In the child. Leaves for good when the nursery goes or says something that is not an order."""
        os.setsid()
        if not die_with_parent(nursery_pid, signal.SIGKILL):
            os._exit(0)
        signal.set_wakeup_fd(-1)
        name_process("phx-standby")
        for fd in nursery_fds:
            os.close(fd)
        for _, other in self._waiting:
            other.close()
        self._waiting.clear()
        reader = FrameReader(max_bytes=self._frame_bytes_max)
        fds: list[int] = []
        while True:
            data, received, _flags, _address = socket.recv_fds(orders, 65_536, self._fds_per_order)
            fds += received
            if not data:
                os._exit(0)
            reader.receive_data(data)
            try:
                order = reader.next_message()
            except FrameError:
                os._exit(1)
            if order is not None:
                try:
                    orders.sendall(_TAKEN)
                except OSError:  # nobody waits for the answer any more: the order is somebody else's
                    os._exit(0)
                return Awakened(order=order, fds=fds, socket_fd=orders.detach())

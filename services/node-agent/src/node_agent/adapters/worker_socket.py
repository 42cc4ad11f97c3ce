"""The Unix socket on which workers report: private, bounded, and indifferent to broken clients.

Who speaks is decided by the kernel (SO_PEERCRED: user and pid, and the pid must be a worker or its descendant), not by
the message. A client that sends nonsense loses its connection and nothing else; one that floods is read more slowly.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

from node_agent.adapters.worker_admission import connections_max, refusal
from node_agent.application.ports import WorkerHandle, WorkerReports
from service_kit.logging import get_logger
from worker_link.block_messages import AtBarrier, BlockEntered, BlockFaulted, BlockFinished, BlockOrder
from worker_link.frames import FrameError, FrameReader, encode
from worker_link.message_fields import MessageError
from worker_link.messages import (
    AgentMessage,
    CheckpointRequest,
    CheckpointSaved,
    Hello,
    RankLabels,
    RestartRequest,
    Step,
    UnknownMessage,
    Welcome,
    from_wire,
    to_wire,
)
from worker_link.phase_messages import PhaseBegun, PhaseDone

SOCKET_PATH_BYTES_MAX = 107
"""sun_path holds 108 bytes with its end (unix(7))."""
ACCEPTS_PER_TURN_MAX = 64
"""asyncio takes in so many at once: a flood of connects costs the loop a few milliseconds at a time."""
QUEUE_MAX = 512
"""Connects that wait in the kernel; past this a worker's link tries again a second later."""
FRAMES_PER_TURN_MAX = 256
"""About 3 ms of work; then the loop serves others and this client is read again after TURN_PAUSE_S."""
TURN_PAUSE_S = 0.05
OWNER_TIME_S_MAX = 5.0
"""A worker can connect before the order that started it has returned; past this the process is foreign."""
OWNER_RETRY_S = (0.02, 0.04, 0.08, 0.16, 0.32)
"""The last one repeats: each look reads /proc, and there may be many strangers."""
UNKNOWN_TYPES_TOLD_MAX = 4
"""Reports of unknown types a connection may cause; a newer worker-link has a few new types, a fuzzer has many."""
UNSENT_BYTES_MAX = 64 * 1024
"""A client that does not read its answers is cut off here."""

log = get_logger(__name__)


class WorkerSocket:
    """Serves one socket in a private folder of its own."""

    def __init__(self, *, owner_of: Callable[[int], WorkerHandle | None], reports: WorkerReports) -> None:
        self._owner_of = owner_of
        self.reports = reports
        self._folder = private_folder()
        self.path = self._folder / "worker.sock"
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._connections_max = connections_max()

    async def start(self) -> None:
        """Begin to listen."""
        loop = asyncio.get_running_loop()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.path))
        self.path.chmod(0o600)  # nobody can connect before it listens
        self._server = await loop.create_unix_server(
            lambda: _Connection(self), sock=listener, backlog=ACCEPTS_PER_TURN_MAX
        )
        listener.listen(QUEUE_MAX)

    def order(self, handle: WorkerHandle, order: BlockOrder) -> bool:
        """Send to the connection of a rank's re-executable block; False when it has none."""
        return self._tell(handle, order, block=True)

    def reassign(self, old: WorkerHandle, new: WorkerHandle) -> None:
        """The process behind the connections is in another generation now."""
        for connection in self._connections:
            if connection.handle == old:
                connection.handle = new

    def send(self, handle: WorkerHandle, message: CheckpointRequest) -> bool:
        """Send to a worker's link for reports; False when it has none."""
        return self._tell(handle, message, block=False)

    def links(self, handle: WorkerHandle) -> bool:
        """Whether a worker has a link for reports."""
        return any(c.handle == handle and c.greeted and not c.is_block for c in self._connections)

    def _tell(self, handle: WorkerHandle, message: AgentMessage, *, block: bool) -> bool:
        targets = [c for c in self._connections if c.handle == handle and c.greeted and c.is_block is block]
        for connection in targets:
            connection.send(message)
        return bool(targets)

    async def close(self) -> None:
        """Close all connections and remove the folder."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()
        shutil.rmtree(self._folder, ignore_errors=True)

    def admit(self, connection: _Connection) -> str:
        """Count a connection, anew when its owner became known; the reason when there are too many."""
        others = (other.handle for other in self._connections if other is not connection)
        reason = refusal(others, connection.handle, limit=self._connections_max)
        if not reason:
            self._connections.add(connection)
        return reason

    def forget(self, connection: _Connection) -> None:
        """The connection has ended."""
        self._connections.discard(connection)

    def owner_of(self, pid: int) -> WorkerHandle | None:
        """The worker this process belongs to."""
        return self._owner_of(pid)


class _Connection(asyncio.Protocol):
    """One client, from credentials to its end."""

    def __init__(self, server: WorkerSocket) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._pid = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self._unknown_told: set[str] = set()
        self.handle: WorkerHandle | None = None
        self.is_block = False
        self.greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._pid, uid = _peer(transport.get_extra_info("socket"))
        if uid not in (os.getuid(), 0):
            self._refuse(f"user {uid} is not the job's user {os.getuid()}")
        else:
            transport.pause_reading()
            self._find_owner(asyncio.get_running_loop().time() + OWNER_TIME_S_MAX, 0)

    def _find_owner(self, give_up_at: float, looks: int) -> None:
        if self._ended:
            return
        self.handle = self._server.owner_of(self._pid)
        loop = asyncio.get_running_loop()
        if (self.handle is not None or looks == 0) and (reason := self._server.admit(self)):
            self._refuse(reason)
        elif self.handle is not None:
            assert self._transport is not None
            self._transport.resume_reading()
        elif loop.time() > give_up_at:
            self._refuse(f"process {self._pid} is not a worker of this agent")
        else:
            wait_s = OWNER_RETRY_S[min(looks, len(OWNER_RETRY_S) - 1)]
            self._timer = loop.call_later(wait_s, self._find_owner, give_up_at, looks + 1)

    def data_received(self, data: bytes) -> None:
        self._reader.receive_data(data)
        self._read_frames()

    def _read_frames(self) -> None:
        assert self._transport is not None
        for _ in range(FRAMES_PER_TURN_MAX):
            if self._ended:
                return
            try:
                wire = self._reader.next_message()
                if wire is None:
                    return
                message = from_wire(wire)
            except (FrameError, MessageError) as error:
                self._refuse(str(error))
                return
            try:
                self._handle(message)
            except Exception as error:
                # Nothing a script says may reach the loop as an exception; whatever slipped through is told as well.
                log.exception("worker_message_failed", pid=self._pid)
                self._refuse(f"its {type(message).__name__} could not be taken in: {type(error).__name__}")
                return
        self._transport.pause_reading()
        self._timer = asyncio.get_running_loop().call_later(TURN_PAUSE_S, self._next_turn)

    def _next_turn(self) -> None:
        if self._ended:
            return
        assert self._transport is not None
        self._transport.resume_reading()
        self._read_frames()

    def _handle(self, message: object) -> None:
        handle, reports = self.handle, self._server.reports
        assert handle is not None, "frames are read only after the owner is known"
        if isinstance(message, Hello):
            if message.rank != handle.rank or message.topology_version not in (0, handle.topology_version):
                claim = f"rank {message.rank}, topology_version {message.topology_version}"
                truth = f"rank {handle.rank}, topology_version {handle.topology_version}"
                self._refuse(f"process {self._pid} claims {claim} but is {truth}")
                return
            self.greeted = True
            self.send(Welcome(topology_version=handle.topology_version))
            reports.on_hello(handle, message)
            return
        if not self.greeted:
            self._refuse("the first message was not hello")
            return
        match message:
            case Step():
                reports.on_step(handle, message)
            case CheckpointSaved():
                reports.on_checkpoint(handle, message)
            case PhaseBegun() | PhaseDone():
                reports.on_phase(handle, message)
            case RankLabels():
                reports.on_labels(handle, message)
            case RestartRequest():
                reports.on_restart_request(handle, message)
            case BlockEntered() | BlockFaulted() | AtBarrier() | BlockFinished():
                if self._pid != handle.pid:
                    self._refuse(f"process {self._pid} is no rank, but a child of one; it has no block")
                    return
                self.is_block = True
                reports.on_block(handle, message)
            case UnknownMessage() if message.type not in self._unknown_told:
                if len(self._unknown_told) < UNKNOWN_TYPES_TOLD_MAX:
                    self._unknown_told.add(message.type)
                    reports.on_bad_client(self._pid, f"message type {message.type!r} is unknown here; ignored")
            case UnknownMessage():
                pass  # told once
            case _:
                self._refuse(f"{type(message).__name__} is not a worker's message")

    def send(self, message: AgentMessage) -> None:
        """Queue an answer; a client that does not read is cut off."""
        if self._ended or self._transport is None:
            return
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self._refuse("it does not read what it is sent")
            return
        self._transport.write(encode(to_wire(message)))

    def _refuse(self, reason: str) -> None:
        if self._ended:
            return
        self.abort()
        self._server.reports.on_bad_client(self._pid, reason)

    def abort(self) -> None:
        """End the connection without waiting for the client."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._server.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        # Frames that a flood left in the buffer are from a worker that spoke properly; a checkpoint may be among them.
        while not self._ended and self.handle is not None and self._reader.pending_bytes:
            before = self._reader.pending_bytes
            self._read_frames()
            if self._reader.pending_bytes == before:
                break
        self._ended = True
        if self.is_block and self.handle is not None:
            self._server.reports.on_block_lost(self.handle)


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Pid and uid of the other end, as of its connect."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _gid = struct.unpack("3i", raw)
    return pid, uid


def private_folder() -> Path:
    """A new folder, mode 0700, with a path short enough for a socket in it."""
    wanted = os.environ.get("XDG_RUNTIME_DIR", "")
    for base in (wanted, "/tmp"):  # noqa: S108  mkdtemp makes an unguessable folder of our own in it
        if base and len(os.fsencode(base)) + 32 <= SOCKET_PATH_BYTES_MAX and os.access(base, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix="phalanx-", dir=base))
    raise OSError(f"no writable folder with a short path for the worker socket (tried {wanted or '-'} and /tmp)")

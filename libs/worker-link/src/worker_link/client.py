"""The training script's side of the worker socket: cheap, never blocking, never raising because the agent is away.

A report is written straight into the socket. When that is full or gone, the newest step replaces the one before (only
the latest matters) and everything else waits in a bounded queue; what does not fit is counted. Connecting again is
tried with the next report, at most once a second.
"""

from __future__ import annotations

import atexit
import os
import select
import socket
import threading
import time
import warnings
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractContextManager

from worker_link.checkpoint_wish import CheckpointWish
from worker_link.frames import FrameError, FrameReader, encode
from worker_link.message_fields import INTEGER_MAX, MessageError
from worker_link.messages import (
    CheckpointRequest,
    CheckpointSaved,
    Hello,
    RankLabels,
    RestartMode,
    RestartRequest,
    Step,
    StepPhase,
    WorkerMessage,
    from_wire,
    to_wire,
)
from worker_link.own_work import OwnWork, checked_busy_s
from worker_link.phases import PhaseStack

QUEUE_MESSAGES_MAX = 256
"""Checkpoints and requests kept while the agent is away; hours of them at usual rates."""
CONNECT_PAUSE_S = 1.0
EXIT_FLUSH_TIME_S_MAX = 0.5
"""A worker that ends has at most this much patience for a busy agent."""


class WorkerLink:
    """One connection to the agent of this node; without a socket path every call does nothing."""

    def __init__(self, *, socket_path: str | None, rank: int = 0, topology_version: int = 0, token: str = "") -> None:
        self._path = socket_path
        self._rank = rank
        self._topology_version = topology_version
        self._token = token
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pid = os.getpid()
        self._reader = FrameReader()
        self._unsent = b""
        self._sending: bytes | None = None
        self._step: bytes | None = None
        self._queue: deque[bytes] = deque()
        self._labels: Mapping[str, str] = {}
        self._connect_not_before_s = 0.0
        self._wish = CheckpointWish()
        self._dropped = 0
        self._last_step: int | None = None
        self._phases = PhaseStack(self._report, lambda: self._topology_version)
        self.work = OwnWork()
        """Tells how much of a step is this rank's own work: own_work.py."""
        if socket_path is not None:
            atexit.register(self._flush_at_exit)
            with self._lock:
                self._flush()

    @property
    def enabled(self) -> bool:
        """False when the script does not run under Phalanx."""
        return self._path is not None

    @property
    def connected(self) -> bool:
        """True while the last report reached the agent's socket."""
        return self._socket is not None

    @property
    def dropped(self) -> int:
        """Messages that did not fit while the agent was away; replaced steps are not counted."""
        return self._dropped

    @property
    def last_step(self) -> int | None:
        """The last step that was reported as finished in this generation."""
        return self._last_step

    @property
    def closed(self) -> bool:
        """`close` was called, or there never was an agent."""
        return self._path is None

    def restarted(self, *, rank: int, topology_version: int) -> None:
        """A restart in place: from now on reports speak of another generation."""
        with self._lock:
            self._rank, self._topology_version, self._last_step = rank, topology_version, None
            self._step = None
            self._wish = CheckpointWish()
        self.work.reset()

    def flush(self) -> None:
        """Send what is queued, for half a second at most."""
        self._flush_at_exit()

    def step(self, step: int, *, busy_s: float | None = None) -> None:
        """Report that a training step is finished; `busy_s` is this rank's own work in it, else `work` tells it.

        Raises:
            ValueError: a negative step or time; a mistake in the script, and never caused by the agent.
        """
        self._report_step(step, StepPhase.FINISHED, checked_busy_s(busy_s))

    def step_started(self, step: int) -> None:
        """Report that a training step begins; optional. What was done since the last one is no work of a step."""
        self._report_step(step, StepPhase.STARTED)

    def checkpoint_saved(
        self, step: int, path: str | os.PathLike[str], kind: str = "model", *, writers: int | None = None
    ) -> None:
        """Report that this rank's part of a checkpoint is durable (written, flushed, renamed).

        `writers` says how many ranks write a part; without it, whoever has written one in this job so far must confirm.
        """
        where, version = os.fspath(path), self._topology_version
        self._report(CheckpointSaved(step=step, path=where, kind=kind, writers=writers, topology_version=version))

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Declare a long phase, `with link.phase("evaluation"):`; it has its own, longer limits before it is a hang."""
        return self._phases.entered(name)

    def labels(self, **labels: object) -> None:
        """Report this rank's place in the parallel layout, for example `labels(dp=0, tp=1)`."""
        self._labels = {key: str(value) for key, value in labels.items()}
        self._report(RankLabels(labels=self._labels))

    def request_restart(self, mode: RestartMode | str, reason: str) -> None:
        """Ask for a restart of a level: in_process, process or job.

        Raises:
            ValueError: no such level; a typing mistake must not be lost.
        """
        self._report(RestartRequest(mode=RestartMode(mode), reason=reason[:1024]))

    def checkpoint_requested(self, step: int | None = None) -> CheckpointRequest | None:
        """Ask after each step, on every rank: is a checkpoint wanted now? Once, on all ranks after the same step.

        `step` is the one just finished; without it, the last that was reported. Save, call `checkpoint_saved` and go
        on: the agent stops the ranks. Costs a microsecond; any thread may ask.
        """
        if self._path is None:
            return None
        with self._lock:
            self._receive()
            return self._wish.due(self._last_step if step is None else step)

    def close(self) -> None:
        """Send what is queued, for half a second at most, and end the connection."""
        self._flush_at_exit()
        with self._lock:
            self._disconnect()
            self._path = None

    def _report_step(self, step: int, phase: StepPhase, busy_s: float | None = None) -> None:
        if self._path is None:
            return
        if not 0 <= step <= INTEGER_MAX:
            raise ValueError(f"step {step} is not a whole number from 0 to 2^63-1")
        version, now_s = self._topology_version, time.monotonic()
        if phase is StepPhase.FINISHED:
            self._last_step = int(step)
            measured_s = self.work.finish(now_s)
            busy_s = measured_s if busy_s is None else busy_s
        else:
            self.work.begin(now_s)
        report = Step(step=int(step), phase=phase, at_monotonic_s=now_s, busy_s=busy_s, topology_version=version)
        frame = encode(to_wire(report))
        with self._lock:
            self._step = frame
            self._flush()

    def _report(self, message: WorkerMessage) -> None:
        if self._path is None:
            return
        try:
            # Read back as the agent will: what it would refuse is refused here, where the mistake is.
            wire = to_wire(message)
            from_wire(wire)
            frame = encode(wire)
        except (FrameError, MessageError) as error:
            self._dropped += 1
            warnings.warn(f"worker_link: not reported: {error}", stacklevel=3)
            return
        with self._lock:
            if len(self._queue) >= QUEUE_MESSAGES_MAX:
                self._queue.popleft()
                self._dropped += 1
            self._queue.append(frame)
            self._flush()

    def _flush(self) -> bool:
        """Send what is possible without waiting; True when nothing is left. The lock is held."""
        if self._pid != os.getpid():
            self._forget_parent()
        if self._socket is None and not self._connect():
            return False
        while True:
            if not self._unsent:
                self._sending = None
                if self._queue:
                    self._unsent = self._sending = self._queue.popleft()
                elif self._step is not None:
                    self._unsent, self._step = self._step, None
                else:
                    return True
            assert self._socket is not None
            try:
                sent = self._socket.send(self._unsent, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError:  # the agent is away
                self._disconnect()
                return False
            self._unsent = self._unsent[sent:]

    def _connect(self) -> bool:
        now_s = time.monotonic()
        if self._path is None or now_s < self._connect_not_before_s:
            return False
        self._connect_not_before_s = now_s + CONNECT_PAUSE_S
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)  # noqa: FBT003  the socket API's own word
            connection.connect(self._path)
        except OSError:  # no agent at the moment; training goes on
            connection.close()
            return False
        self._socket = connection
        self._reader = FrameReader()
        version = self._topology_version
        self._unsent = encode(
            to_wire(Hello(rank=self._rank, pid=self._pid, token=self._token, topology_version=version))
        )
        if self._labels:
            self._unsent += encode(to_wire(RankLabels(labels=self._labels)))
        return True

    def _disconnect(self) -> None:
        if self._sending is not None:
            # Cut off by the connection's end: the next one gets it again from its first byte.
            self._queue.appendleft(self._sending)
            self._sending = None
        self._unsent = b""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _forget_parent(self) -> None:
        """In a forked child: the connection is the parent's; what it had queued is the parent's to send."""
        self._pid = os.getpid()
        self._disconnect()
        self._queue.clear()
        self._connect_not_before_s = 0.0

    def _receive(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(65536, socket.MSG_DONTWAIT)
            if not data:
                self._disconnect()
                return
            self._reader.receive_data(data)
            while (wire := self._reader.next_message()) is not None:
                message = from_wire(wire)
                if isinstance(message, CheckpointRequest):
                    self._wish.receive(message)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, FrameError, MessageError):  # not an agent we understand: start over with the next report
            self._disconnect()

    def _flush_at_exit(self) -> None:
        if self._path is None or self._pid != os.getpid():
            return
        give_up_at_s = time.monotonic() + EXIT_FLUSH_TIME_S_MAX
        with self._lock:
            while not self._flush() and self._socket is not None:
                remaining_s = give_up_at_s - time.monotonic()
                if remaining_s <= 0:
                    return
                select.select([], [self._socket], [], remaining_s)

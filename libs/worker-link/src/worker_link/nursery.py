"""The nursery: imports torch once, then forks ready workers for the agent in milliseconds.

`python -c STUB --control-fd N --parent-pid P --preload torch,...`. One thread, no CUDA, one event loop over two
descriptors: the control socket to the agent (JSON frames; four descriptors per fork order, passed with SCM_RIGHTS) and
the wake-up pipe of SIGCHLD and SIGTERM. It owns the workers' lives: it is their subreaper, and when the agent goes
(end of the control stream, or SIGTERM by the kernel) everything below it is killed before it leaves.

Imports read the environment once: the agent starts the nursery with the environment the workers will have.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from typing import Any, NoReturn

from worker_link.frames import FrameError, FrameReader, encode
from worker_link.linux import become_subreaper, die_with_parent, name_process
from worker_link.process_tree import descendants, read_process, read_processes
from worker_link.standby_children import StandbyChildren
from worker_link.worker_birth import Birth, become_worker

CONTROL_FRAME_BYTES_MAX = 8 * 1024 * 1024
"""A fork order carries environment and arguments; Linux allows about 2 MB of them and JSON escapes make them longer."""
FDS_PER_ORDER = 4
"""stdin, stdout, stderr, stacks file."""
REFILL_QUIET_S = 0.5
"""Children are forked ahead when nothing happened for so long: not while a gang is being started."""
KILL_TIME_S_MAX = 2.0
"""After this the rest is in uninterruptible sleep; init gets it."""


class Nursery:
    """Serves one control socket until it ends. `serve` returns in a forked child only, with its order."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._reader = FrameReader(max_bytes=CONTROL_FRAME_BYTES_MAX)
        self._fds: deque[int] = deque()
        self._workers: set[int] = set()
        self._standby = StandbyChildren(frame_bytes_max=CONTROL_FRAME_BYTES_MAX, fds_per_order=FDS_PER_ORDER)
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._terminated = False

    def watch_signals(self) -> None:
        """SIGCHLD and SIGTERM wake the loop; a terminal's Ctrl-C and hang-up are the agent's business."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_terminate)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _on_terminate(self, *_: object) -> None:
        self._terminated = True

    def send(self, message: dict[str, Any]) -> None:
        """Send to the agent; when it is gone the loop will see the end of the stream."""
        try:
            self._control.sendall(encode(message, max_bytes=CONTROL_FRAME_BYTES_MAX))
        except OSError:  # the agent is gone: reading gives the end of the stream, which is handled
            self._terminated = True

    def serve(self) -> Birth:
        """Handle orders and deaths; returns only in a child that was just forked."""
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        birth: Birth | None = None
        while birth is None:
            if self._terminated:
                self.end()
            ready = {key.fd for key, _ in self._selector.select(REFILL_QUIET_S if self._standby.is_short else None)}
            if self._wake_read in ready:
                self._drain_wake_pipe()
                self._reap()
            if self._control.fileno() in ready:
                birth = self._receive()
            elif not ready and not self._fds:  # not between an order's descriptors and its end: they would be inherited
                birth = self._refill()
        return birth

    def _drain_wake_pipe(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:  # another wake-up has emptied it
            return

    def _receive(self) -> Birth | None:
        try:
            data, fds, _flags, _address = socket.recv_fds(self._control, 65536, 64)
        except ConnectionError:
            data, fds = b"", []
        self._fds.extend(fds)
        if not data:
            self._terminated = True
            return None
        self._reader.receive_data(data)
        try:
            while (order := self._reader.next_message()) is not None:
                birth = self._obey(order)
                if birth is not None:
                    return birth
        except FrameError as error:
            self.send({"type": "refused", "reason": str(error)})
            self._terminated = True
        return None

    def _obey(self, order: dict[str, Any]) -> Birth | None:
        if order.get("type") != "fork":
            self.send({"type": "refused", "reason": f"unknown order {str(order.get('type'))[:80]!r}"})
            return None
        fds = [self._fds.popleft() for _ in range(min(FDS_PER_ORDER, len(self._fds)))]
        try:
            return self._fork(order, fds)
        except (KeyError, TypeError, ValueError, OSError) as error:
            self.send({"type": "fork_failed", "id": order.get("id"), "reason": f"{type(error).__name__}: {error}"})
            return None

    def _refill(self) -> Birth | None:
        """Fork one child ahead of need; returns its order in that child, when it has come."""
        try:
            awakened = self._standby.fork(nursery_fds=self._own_fds())
        except OSError as error:
            self._standby.wanted = 0
            sys.stderr.write(f"no child can be forked ahead, so none will stand by: {error}\n")
            return None
        if awakened is None:
            return None
        self._control.detach()  # closed already; the object must not close what has that number now
        return self._birth(awakened.order, awakened.fds, (awakened.socket_fd,), nursery_pid=os.getppid())

    def _fork(self, order: dict[str, Any], fds: list[int]) -> Birth | None:
        try:
            birth = self._birth(order, fds, (*self._own_fds(), *self._fds), nursery_pid=os.getpid())
            self._standby.wanted = max(self._standby.wanted, len(self._workers) + 1)
            ready_pid = self._standby.hand_over(order, fds)
            if ready_pid is not None:
                self._forked(order, ready_pid, fds)
                return None
            # Blocked over the fork: a signal for the child must meet the child's handlers, not the nursery's.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            pid = os.fork()
            if pid == 0:
                return birth
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            for fd in fds:
                os.close(fd)
            raise
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._forked(order, pid, fds)
        return None

    def _forked(self, order: dict[str, Any], pid: int, fds: list[int]) -> None:
        for fd in fds:
            os.close(fd)
        self._workers.add(pid)
        row = read_process(pid)
        ticks = row.start_ticks if row is not None else 0
        self.send({"type": "forked", "id": order["id"], "pid": pid, "start_ticks": ticks})

    def _own_fds(self) -> tuple[int, ...]:
        return (self._control.fileno(), self._wake_read, self._wake_write)

    def _birth(self, order: dict[str, Any], fds: list[int], nursery_fds: tuple[int, ...], *, nursery_pid: int) -> Birth:
        if len(fds) != FDS_PER_ORDER:
            raise ValueError(f"a fork order needs {FDS_PER_ORDER} descriptors, got {len(fds)}")
        stdin_fd, stdout_fd, stderr_fd, stacks_fd = fds
        return Birth(
            kind=order["kind"],
            program=order["program"],
            args=list(order["args"]),
            env=dict(order["env"]),
            cwd=order["cwd"],
            name=order["name"],
            stdin_fd=stdin_fd,
            stdout_fd=stdout_fd,
            stderr_fd=stderr_fd,
            stacks_fd=stacks_fd,
            nursery_pid=nursery_pid,
            nursery_fds=nursery_fds,
        )

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid not in self._workers:
                self._standby.forget(pid)
                continue  # a daemonised descendant that came to its subreaper
            self._workers.discard(pid)
            self.send(
                {
                    "type": "exited",
                    "pid": pid,
                    "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
                    "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
                    "core": os.WCOREDUMP(status),
                    "max_rss_kib": usage.ru_maxrss,
                }
            )

    def end(self) -> NoReturn:
        """Kill everything below this process, in rounds until a scan finds nothing, and leave."""
        self._selector.unregister(self._control)  # at its end it is readable for ever
        give_up_at = time.monotonic() + KILL_TIME_S_MAX
        while time.monotonic() < give_up_at:
            self._reap_silently()
            rows = read_processes()
            left = {pid for pid in descendants(rows, [os.getpid()]) if rows[pid].alive}
            if not left:
                break
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            # Woken by the next death; the bound only covers a process that the kernel cannot end yet.
            self._selector.select(timeout=0.02)
            self._drain_wake_pipe()
        os._exit(0)

    def _reap_silently(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                continue
        except ChildProcessError:
            return

    def forget(self) -> None:
        """In the child: the selector is an epoll object shared with the nursery, so it is closed, never changed."""
        self._selector.close()
        self._control.detach()


def preload(names: list[str]) -> tuple[list[str], dict[str, str]]:
    """Import the modules; a failing one is a reason, not an end."""
    done: list[str] = []
    failed: dict[str, str] = {}
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001  an import may raise or even exit; the nursery serves all the same
            failed[name] = f"{type(error).__name__}: {error}"[:500]
        else:
            done.append(name)
    return done, failed


def main() -> NoReturn:
    """Entry point of the process; in forked children it goes on as the worker."""
    parser = argparse.ArgumentParser(prog="worker_link.nursery")
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--preload", default="")
    options = parser.parse_args()
    if not die_with_parent(options.parent_pid, signal.SIGTERM):
        sys.exit("the agent ended before its nursery had started")
    become_subreaper()
    name_process("phalanx-nursery")
    nursery = Nursery(socket.socket(fileno=options.control_fd))
    started_s = time.monotonic()
    done, failed = preload([name for name in options.preload.split(",") if name])
    # After the imports, because some of them install handlers of their own.
    nursery.watch_signals()
    cuda = sys.modules.get("torch.cuda")
    # What exists now is shared with every worker; the collector does not touch frozen objects, so pages stay shared.
    gc.collect()
    gc.freeze()
    nursery.send(
        {
            "type": "ready",
            "pid": os.getpid(),
            "preloaded": done,
            "failed": failed,
            "threads": len(os.listdir("/proc/self/task")),
            "cuda_initialized": bool(cuda is not None and cuda.is_initialized()),
            "took_s": round(time.monotonic() - started_s, 3),
        }
    )
    birth = nursery.serve()
    nursery.forget()
    become_worker(birth)


if __name__ == "__main__":
    main()

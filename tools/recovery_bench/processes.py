"""Processes of the benchmark: started in their own sessions, and every descendant ended, wherever it went."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

END_LIMIT_S = 10.0


class Started:
    """What one job started; `end` leaves nothing of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def running(self) -> list[subprocess.Popen[bytes]]:
        """Those that were started here and have not ended."""
        return [process for process in self._processes if process.poll() is None]

    def kill(self, pid: int, *, descendants_too: bool) -> None:
        """SIGKILL one of them; with its descendants where these would outlive it."""
        victims = [pid, *descendants(pid)] if descendants_too else [pid]
        for victim in victims:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended meanwhile

    def start(self, name: str, argv: list[str], env: dict[str, str], *, piped: bool = False) -> subprocess.Popen[bytes]:
        """Start one, with its output in a file. `piped`: stdin and stdout are the driver's."""
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                argv,
                env={**_plain_environment(), "BENCH_DIR": str(self._folder), **env},
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def end(self) -> None:
        """SIGKILL all of them and all that carry this job's BENCH_DIR: agents' workers have sessions of their own."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait(END_LIMIT_S)
        end_s = time.monotonic() + END_LIMIT_S
        while left := _with_environment(f"BENCH_DIR={self._folder}"):
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it ended meanwhile
            if time.monotonic() > end_s:
                raise RuntimeError(f"processes {left} do not end")
            time.sleep(0.02)


def exit_on_sigterm() -> None:
    """SIGTERM as an exception in the main thread, as Ctrl-C is one: so that whoever has started something ends it."""

    def leave(*_: object) -> None:
        sys.exit(143)

    signal.signal(signal.SIGTERM, leave)


def descendants(pid: int) -> list[int]:
    """All processes below one, by their parents as they are now."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = int((folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended meanwhile
        children.setdefault(parent, []).append(int(folder.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _plain_environment() -> dict[str, str]:
    """Ours, but byte code may be written: else every import of torch by torchrun's ranks takes twice as long."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _with_environment(entry: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if entry.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # ended, or not ours
    return found

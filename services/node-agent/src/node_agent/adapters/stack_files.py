"""application.progress_ports.StackTaker: a signal to each rank, then what it appended to its stacks file.

The files may lie on a network file system that hangs as well, so they are read in threads and with a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from node_agent.adapters.daemon_calls import DaemonCalls
from node_agent.adapters.dump_signal import answers_dump_signal
from node_agent.application.ports import RankFiles, WorkerHandle
from node_agent.domain.stack_dump import TEXT_LENGTH_MAX, parse_last_dump
from training_topology.identity import Rank
from worker_link.linux import STACK_DUMP_SIGNAL

POLL_S = 0.02
"""A rank writes its dump within milliseconds of the signal, unless it cannot run."""
READ_S_MAX = 1.0
"""Beyond `wait_s`, for a file system that does not answer: then the evidence is taken without stacks."""


class StackFiles:
    """Stacks of the ranks of this node."""

    def __init__(
        self, *, files_of: Callable[[WorkerHandle], RankFiles | None], signal: Callable[[WorkerHandle, int], bool]
    ) -> None:
        self._files_of = files_of
        self._signal = signal
        self._calls = DaemonCalls(name="stacks", limit=1)

    async def take(self, handles: Sequence[WorkerHandle], *, wait_s: float) -> Mapping[Rank, str]:
        """See the port."""
        if self._calls.exhausted:
            return {}  # the file system has not answered the last time yet: one thread waits for it, not a hundred
        files = {handle: found.stacks for handle in handles if (found := self._files_of(handle)) is not None}
        try:
            return await self._calls.run(lambda _given_up: self._take(files, wait_s), limit_s=wait_s + READ_S_MAX)
        except TimeoutError:
            return {}

    def _take(self, files: Mapping[WorkerHandle, Path], wait_s: float) -> dict[Rank, str]:
        places = {handle: _size(path) for handle, path in files.items()}
        asked = [
            handle
            for handle in files
            if answers_dump_signal(handle, files[handle]) and self._signal(handle, STACK_DUMP_SIGNAL)
        ]
        give_up_at_s = time.monotonic() + wait_s
        found: dict[Rank, str] = {}
        while True:
            for handle in [handle for handle in asked if handle.rank not in found]:
                text = _read_from(files[handle], places[handle])
                dump = parse_last_dump(text)
                # The main thread is written last: without it the dump is still under way.
                if dump is not None and dump.main is not None:
                    found[handle.rank] = text
            if len(found) == len(asked) or time.monotonic() >= give_up_at_s:
                return found
            time.sleep(POLL_S)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # removed by the script: there will be no dump either
        return 0


def _read_from(path: Path, place: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(place)
            return file.read(TEXT_LENGTH_MAX).decode(errors="replace")
    except OSError:  # as above
        return ""

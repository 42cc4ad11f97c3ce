"""The state of each rank's process, looked at a few times a second, and CPU time as the last source of progress.

A stop is seen within a second although the limits for progress are longer. For jobs that report no steps, the node
counts as moving while each of its ranks uses CPU: then, and only then, no rank waits for another without end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from node_agent.application.ports import WorkerHandle
from node_agent.application.progress_ports import ProcessReader
from node_agent.domain.rank_evidence import BUSY_CPU_SHARE, ProcessState
from training_topology.identity import Rank

POLL_S = 0.25
"""Between two looks. One look is one read of /proc/PID/stat per rank, about 15 us: 8 ranks cost 0.05 % of a core."""
CPU_WINDOW_S = 1.0
"""Over which the use of CPU is taken: short enough for steps of a minute, long against a clock tick of 10 ms."""
_ENDED = (ProcessState.STOPPED, ProcessState.ZOMBIE)


@dataclass(slots=True, kw_only=True)
class _Seen:
    state: ProcessState
    since_s: float
    cpu_s: float


class StateBoard:
    """What the newest look showed, per rank."""

    def __init__(self, reader: ProcessReader) -> None:
        self._reader = reader
        self._seen: dict[Rank, _Seen] = {}
        self._window_s = 0.0
        self._window_cpu_s: dict[Rank, float] = {}
        self._busy: set[Rank] = set()
        self._marks = 0

    def clear(self) -> None:
        """A new generation: other processes."""
        self._seen.clear()
        self._window_cpu_s.clear()
        self._busy.clear()

    def look(self, handles: Sequence[WorkerHandle], *, now_s: float) -> None:
        """Look at each rank."""
        ranks = {handle.rank for handle in handles}
        for gone in [rank for rank in self._seen if rank not in ranks]:
            del self._seen[gone]
        for handle in handles:
            sample = self._reader.sample(handle)
            if sample is None:  # it has ended, which is told by its pidfd
                self._seen.pop(handle.rank, None)
                continue
            before = self._seen.get(handle.rank)
            since_s = before.since_s if before is not None and before.state is sample.state else now_s
            self._seen[handle.rank] = _Seen(state=sample.state, since_s=since_s, cpu_s=sample.cpu_s)

    def forgive(self, lost_s: float) -> None:
        """The agent did not run for so long: what was not looked at is not known to have lasted."""
        for seen in self._seen.values():
            seen.since_s += lost_s
        self._window_cpu_s.clear()

    def state_of(self, rank: Rank, *, now_s: float) -> tuple[ProcessState, float]:
        """State, and for how long."""
        seen = self._seen.get(rank)
        return (ProcessState.UNKNOWN, 0.0) if seen is None else (seen.state, max(0.0, now_s - seen.since_s))

    def any_stopped(self) -> bool:
        """A rank is stopped, or its main thread has ended."""
        return any(seen.state in _ENDED for seen in self._seen.values())

    def cannot_run(self, rank: Rank) -> bool:
        """It would not answer a signal."""
        seen = self._seen.get(rank)
        return seen is not None and seen.state in (*_ENDED, ProcessState.TRACED)

    def cpu_mark(self, *, now_s: float) -> int | None:
        """A number one larger than the last when each rank was busy for a window since then, else None.

        Not all in the same window: ranks may take turns. Not by the sum: helper threads of a hung process add up too.
        """
        elapsed_s = now_s - self._window_s
        if self._window_cpu_s and elapsed_s < CPU_WINDOW_S:
            return None
        before = self._window_cpu_s
        self._window_s, self._window_cpu_s = now_s, {rank: seen.cpu_s for rank, seen in self._seen.items()}
        if not self._seen or before.keys() != self._window_cpu_s.keys():
            return None
        least_s = BUSY_CPU_SHARE * elapsed_s
        self._busy |= {rank for rank, seen in self._seen.items() if seen.cpu_s - before[rank] >= least_s}
        if not self._busy >= self._seen.keys():
            return None
        self._busy.clear()
        self._marks += 1
        return self._marks

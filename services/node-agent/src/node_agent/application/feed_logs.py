"""Feeds the watch over the logs with the output of the present generation, and wakes it when a line is overdue."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from node_agent.application.output_tap import OutputPlace
from node_agent.application.ports import WorkerExit
from node_agent.application.report_log_findings import LogFindingReports
from node_agent.application.watch_logs import WatchLogs
from node_agent.domain.log_rule import LogStream
from node_agent.domain.worker_group import WorkerGroup
from service_kit.ports import Clock
from training_topology.identity import LocalRank, Rank


class LogFeed:
    """application.output_tap.OutputTap and application.group_watch.GroupWatch.

    While ranks are being stopped the watch goes on reading, because a checkpoint may be saved in the grace, but its
    findings are not told and no timer runs: what ranks say when they are ended is no news.
    """

    def __init__(self, watch: WatchLogs, findings: LogFindingReports, clock: Clock) -> None:
        self._watch = watch
        self._findings = findings
        self._clock = clock
        self._version = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_s = 0.0
        self._is_stopping = True

    # ------------------------------------------------------------------------------------------------- output

    def take(self, place: OutputPlace, stream: LogStream, data: bytes) -> None:
        """See the port."""
        if place.topology_version == self._version:
            self._watch.take(place.rank, stream, data)
            self.arm()

    def end(self, place: OutputPlace, stream: LogStream) -> None:
        """See the port."""
        if place.topology_version == self._version:
            self._watch.end(place.rank, stream)

    # -------------------------------------------------------------------------------------------------- group

    def on_begun(self, group: WorkerGroup, continuing: Collection[Rank]) -> None:
        """See the port."""
        self._version = group.topology_version
        self._is_stopping = False
        self._findings.begin()
        ranks = {group.rank_of(LocalRank(local_rank)): LocalRank(local_rank) for local_rank in range(group.nproc)}
        self._watch.start(ranks, continuing=continuing)
        self.arm()

    def on_started(self) -> None:
        """See the port."""
        self._findings.catch_up()

    def on_exit(self, ended: WorkerExit) -> None:
        """See the port."""
        handle = ended.handle
        if handle.topology_version == self._version:
            # A child that holds the pipe open must not keep the last line of its dead parent back.
            for stream in LogStream:
                self._watch.end(handle.rank, stream)
            self._watch.leave(handle.rank)

    def on_stopping(self) -> None:
        """See the port."""
        self._is_stopping = True
        self._findings.mute()
        self.close()

    # -------------------------------------------------------------------------------------------------- timer

    def arm(self) -> None:
        """Wake up when the next line is overdue; a timer that is early costs a look and no more."""
        due_s = self._watch.next_deadline_s
        if due_s is None or self._is_stopping or (self._timer is not None and self._timer_due_s <= due_s):
            return
        self.close()
        self._timer_due_s = due_s
        wait_s = max(0.0, due_s - self._clock.monotonic_s())
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._wake)

    def close(self) -> None:
        """No timer is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._timer = None
        self._watch.tick()
        self.arm()

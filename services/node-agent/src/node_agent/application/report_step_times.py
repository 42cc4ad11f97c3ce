"""Steps of the local ranks → one report of step times a window, for the comparison over all nodes.

A step costs no message. A report that cannot be sent is not kept: it would speak of a time that is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fault_contracts.step_times import RankStepTimes, StepTimesReported
from node_agent.application.agent_life import AgentLife
from node_agent.application.outgoing import Outgoing
from node_agent.domain.step_window import ClosedWindow, RankTimes, StepWindows, WindowPolicy, peers_of
from service_kit.errors import ServiceError, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock
from training_topology.identity import LocalRank

SENDING_MAX = 4
"""Reports under way at once; a bus that is slower than two windows gets no more of them."""

_log = get_logger(__name__)


class StepTimesReporter:
    """Takes in every finished step of the present generation, from whatever tells it."""

    def __init__(
        self, life: AgentLife, outgoing: Outgoing, clock: Clock, *, policy: WindowPolicy | None = None
    ) -> None:
        self._life = life
        self._outgoing = outgoing
        self._clock = clock
        self._policy = policy or WindowPolicy()
        self._topology_version = 0
        self._windows = StepWindows(opened_s=0.0, policy=self._policy)
        self._peers: dict[LocalRank, str] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self.bus: Bus | None = None
        """Set once there is one."""

    def on_step(self, local_rank: LocalRank, step: int, *, at_s: float, busy_s: float | None = None) -> None:
        """A rank of the present generation finished a step at `at_s`, by a clock of its own or of this node."""
        group = self._life.group
        if group is None or not 0 <= local_rank < group.nproc:
            return
        now_s = self._clock.monotonic_s()
        if group.topology_version != self._topology_version:
            self._topology_version = group.topology_version
            self._windows = StepWindows(opened_s=now_s, policy=self._policy)
        closed = self._windows.note(local_rank, step, at_s=at_s, busy_s=busy_s, now_s=now_s)
        if closed is not None and closed.ranks:
            self._report(closed, int(group.first_rank))

    def on_labels(self, local_rank: LocalRank, labels: Mapping[str, str]) -> None:
        """A rank said where it stands in the parallel layout; kept over restarts until it says otherwise."""
        if 0 <= local_rank < self._life.spec.nproc_per_node:
            self._peers[local_rank] = peers_of(labels)

    def _report(self, closed: ClosedWindow, first_rank: int) -> None:
        identity, start = self._life.identity, self._life.start
        if self.bus is None or start is None or len(self._sending) >= SENDING_MAX:
            return
        report = StepTimesReported(
            node_id=identity.node_id,
            instance_id=identity.instance_id,
            job_id=identity.job_id,
            topology_version=self._topology_version,
            world_size=start.world_size,
            window=closed.number,
            first_step=closed.first_step,
            last_step=closed.last_step,
            duration_s=closed.duration_s,
            ranks=tuple(self._rank(local_rank, first_rank, times) for local_rank, times in closed.ranks.items()),
            reported_at=self._clock.now(),
        )
        task = asyncio.get_running_loop().create_task(self._send(self.bus, report))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _rank(self, local_rank: LocalRank, first_rank: int, times: RankTimes) -> RankStepTimes:
        return RankStepTimes(
            rank=first_rank + local_rank,
            local_rank=local_rank,
            count=times.whole.count,
            median_s=times.whole.median_s,
            spread_s=times.whole.spread_s,
            busy_count=0 if times.busy is None else times.busy.count,
            busy_median_s=None if times.busy is None else times.busy.median_s,
            busy_spread_s=None if times.busy is None else times.busy.spread_s,
            peers=self._peers.get(local_rank, ""),
        )

    async def _send(self, bus: Bus, report: StepTimesReported) -> None:
        try:
            await bus.publish(self._outgoing.seal(report))
        except TransientError:
            # The next window says more than this one would, later.
            pass
        except ServiceError as error:
            _log.warning("step_times_refused", window=report.window, error=str(error))

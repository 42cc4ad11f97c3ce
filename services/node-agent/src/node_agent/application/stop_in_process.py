"""Call the ranks back to the barrier, end those that cannot come, and say who stands there. Never waits for ever."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from signal import SIGTERM

from fault_contracts.commands import StopWorkers
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.ports import BlockLine, StopOutcome, WorkerHandle, WorkerProcesses
from node_agent.domain.block_ranks import BlockPlace
from worker_link.block_messages import Abort

_ON_ITS_WAY = (BlockPlace.INSIDE, BlockPlace.FAULTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierOutcome:
    """Who stands at the barrier, who was ended, and who was ended because it did not come in time."""

    standing: tuple[WorkerHandle, ...]
    missed: tuple[WorkerHandle, ...]
    ended: StopOutcome
    took_s: float


class InProcessStop:
    """The in-process half of the stop; phases are the business of WorkerStop."""

    def __init__(self, life: AgentLife, processes: WorkerProcesses, line: BlockLine, announcer: Announcer) -> None:
        self._life = life
        self._processes = processes
        self._line = line
        self._announcer = announcer

    async def carry_out(self, command: StopWorkers) -> BarrierOutcome:
        """Return when every rank stands at the barrier or is gone; `barrier_s` at most, and what killing takes."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        handles = tuple(self._life.handles)
        condemned = set(command.ranks or ())
        doomed = [h for h in handles if h.rank in condemned or not self._call_back(h, command)]
        ending = asyncio.create_task(self._end(doomed, command.grace_s, condemned)) if doomed else None
        coming = [handle for handle in handles if handle not in doomed]
        await self._wait(coming, until_s=began_s + command.barrier_s)
        standing = tuple(h for h in coming if self._place(h) is BlockPlace.AT_BARRIER)
        late = [handle for handle in coming if handle not in standing]
        missed = tuple(handle for handle in late if self._place(handle) in _ON_ITS_WAY)
        for handle in missed:
            self._announcer.say(
                f"rank {handle.rank} did not come to the barrier within {command.barrier_s:g} s; its process is ended"
            )
        # Whoever ignored the abort for so long would ignore a SIGTERM as well.
        outcomes = [] if ending is None else [await ending]
        if late:
            outcomes.append(await self._processes.stop(late, grace_s=0.0))
        # A rank may have died at the barrier while others were waited for.
        standing = tuple(handle for handle in standing if self._place(handle) is BlockPlace.AT_BARRIER)
        return BarrierOutcome(
            standing=standing,
            missed=missed,
            ended=StopOutcome(
                exits=tuple(ended for outcome in outcomes for ended in outcome.exits),
                unkillable=tuple(handle for outcome in outcomes for handle in outcome.unkillable),
                leftover_pids=tuple(pid for outcome in outcomes for pid in outcome.leftover_pids),
            ),
            took_s=loop.time() - began_s,
        )

    async def _end(self, doomed: list[WorkerHandle], grace_s: float, condemned: set[int]) -> StopOutcome:
        first_signal = self._life.program.shutdown_signal or SIGTERM
        return await self._processes.stop(doomed, grace_s=grace_s, first_signal=first_signal, condemned=condemned)

    def _call_back(self, handle: WorkerHandle, command: StopWorkers) -> bool:
        """False when a rank cannot be called back: it is dead, outside its block, or not fit to go on."""
        place = self._place(handle)
        if place is BlockPlace.INSIDE:
            abort = Abort(topology_version=command.fence.topology_version, reason=command.reason.sentence[:1024])
            return self._line.order(handle, abort)
        return place in (BlockPlace.FAULTED, BlockPlace.AT_BARRIER)

    def _place(self, handle: WorkerHandle) -> BlockPlace:
        return self._life.blocks.place_of(handle.local_rank)

    async def _wait(self, coming: list[WorkerHandle], *, until_s: float) -> None:
        try:
            async with asyncio.timeout_at(until_s):
                while any(self._place(handle) in _ON_ITS_WAY for handle in coming):
                    self._life.block_news.clear()
                    await self._life.block_news.wait()
        except TimeoutError:
            # Who is not there by now is ended by the caller, which says so.
            return

"""A signal told the agent to go: a checkpoint where it can be had, then ranks end gracefully. Again means faster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from signal import SIGTERM, Signals

from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.farewell import Farewell
from node_agent.application.ports import WorkerProcesses
from node_agent.application.stop_workers import counted
from node_agent.domain.agent_state import AgentEvent, TransitionRefused


class Leave:
    """Not a command, so it does not wait for one that is being carried out.

    `preemption` are the signals that mean: this node is taken away soon. All others mean: stop the job here.
    """

    def __init__(
        self,
        life: AgentLife,
        processes: WorkerProcesses,
        announcer: Announcer,
        *,
        shutdown_timeout_s: float,
        farewell: Farewell | None = None,
        preemption: Collection[Signals] = (),
    ) -> None:
        self._life = life
        self._processes = processes
        self._announcer = announcer
        self._shutdown_timeout_s = shutdown_timeout_s
        self._preemption = frozenset(preemption)
        self._farewell = farewell
        self._saving = False
        self._hurry = asyncio.Event()
        self._leaving: asyncio.Task[None] | None = None
        self._hurrying: asyncio.Task[None] | None = None

    def on_signal(self, number: Signals) -> None:
        """The first signal leaves gracefully, one while a checkpoint is waited for stops now, any further one kills."""
        loop = asyncio.get_running_loop()
        if self._leaving is None:
            self._leaving = loop.create_task(self._leave(number))
        elif self._saving and not self._hurry.is_set():
            self._announcer.say(f"{number.name}: the checkpoint is not waited for any longer")
            self._hurry.set()
        elif self._hurrying is None:
            self._announcer.say(f"{number.name} again: killing the ranks now")
            self._hurrying = loop.create_task(self._kill())

    async def _leave(self, number: Signals) -> None:
        first_signal = self._life.program.shutdown_signal or SIGTERM
        grace_s = self._shutdown_timeout_s
        if number in self._preemption:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            if await self._save_first(number):
                left_s = self._shutdown_timeout_s - (loop.time() - began_s)
                grace_s = max(left_s, min(self._life.spec.stop_grace_s, self._shutdown_timeout_s))
            elif self._life.program.shutdown_signal is None:
                # As torchrun does: a script with a handler of its own for this signal gets it, and time to act on it.
                first_signal = number
        running = self._processes.running()
        if running:
            self._announcer.say(
                f"{number.name}: stopping {counted(len(running))} (up to {grace_s:.3g} s; "
                "once more to kill them at once)"
            )
        else:
            self._announcer.say(f"{number.name}: leaving")
        try:
            self._life.advance(AgentEvent.LEAVE)
        except TransitionRefused:
            # The job's end is being carried out already; its exit code counts.
            return
        self._life.leaving.set()
        await self._processes.stop(running, grace_s=grace_s, first_signal=first_signal)
        self._life.end(128 + number, f"{number.name} to the agent")

    async def _save_first(self, number: Signals) -> bool:
        """True when the gang was asked for a checkpoint; its ranks are stopped by then, or not worth waiting for."""
        if self._farewell is None or not self._processes.running():
            return False
        self._saving = True
        try:
            return await self._farewell.checkpoint(number, within_s=self._shutdown_timeout_s, hurry=self._hurry)
        finally:
            self._saving = False

    async def _kill(self) -> None:
        await self._processes.stop(self._processes.running(), grace_s=0.0)

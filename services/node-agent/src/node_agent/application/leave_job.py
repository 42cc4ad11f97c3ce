"""A signal told the agent to go: ranks end gracefully, and a second signal ends them at once."""

from __future__ import annotations

import asyncio
from signal import Signals

from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.ports import WorkerProcesses
from node_agent.application.stop_workers import counted
from node_agent.domain.agent_state import AgentEvent, TransitionRefused


class Leave:
    """Not a command, so it does not wait for one that is being carried out."""

    def __init__(
        self,
        life: AgentLife,
        processes: WorkerProcesses,
        announcer: Announcer,
        *,
        shutdown_timeout_s: float,
    ) -> None:
        self._life = life
        self._processes = processes
        self._announcer = announcer
        self._shutdown_timeout_s = shutdown_timeout_s
        self._leaving: asyncio.Task[None] | None = None
        self._hurrying: asyncio.Task[None] | None = None

    def on_signal(self, number: Signals) -> None:
        """The first signal leaves gracefully, every further one at once."""
        loop = asyncio.get_running_loop()
        if self._leaving is None:
            self._leaving = loop.create_task(self._leave(number))
        elif self._hurrying is None:
            self._announcer.say(f"{number.name} again: killing the ranks now")
            self._hurrying = loop.create_task(self._kill())

    async def _leave(self, number: Signals) -> None:
        running = self._processes.running()
        if running:
            self._announcer.say(
                f"{number.name}: stopping {counted(len(running))} (up to {self._shutdown_timeout_s:g} s; "
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
        await self._processes.stop(running, grace_s=self._shutdown_timeout_s)
        self._life.end(128 + number, f"{number.name} to the agent")

    async def _kill(self) -> None:
        await self._processes.stop(self._processes.running(), grace_s=0.0)

"""From being connected to leaving: be found, be told, keep reporting, and end when the job does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

from node_agent.application.agent_life import AgentLife
from node_agent.application.catch_up import CatchUp
from node_agent.application.control_ports import Announcer
from node_agent.application.obey_commands import COMMANDS, CommandIntake
from node_agent.application.report_agent import AgentReporter
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.job_end import ExitCode
from service_kit.ports import Bus, Clock

WATCH_INTERVAL_S = 1.0
"""Between two looks at the connection for the person's notice; a shorter outage is nobody's business."""


class JobAttendance:
    """The agent's main line."""

    def __init__(
        self,
        life: AgentLife,
        bus: Bus,
        intake: CommandIntake,
        catch_up: CatchUp,
        reporter: AgentReporter,
        clock: Clock,
        announcer: Announcer,
        *,
        is_connected: Callable[[], bool],
        beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        self._life = life
        self._bus = bus
        self._intake = intake
        self._catch_up = catch_up
        self._reporter = reporter
        self._clock = clock
        self._announcer = announcer
        self._is_connected = is_connected
        self._beside = tuple(beside)

    async def attend(self) -> int:
        """Take part until the job ends or the agent is told to leave; returns the exit code."""
        life = self._life
        async with AsyncExitStack() as stack:
            # Listen before reporting: the answer to the report may be the first command.
            listening = await self._bus.listen(
                messages=COMMANDS, handler=self._intake.on_delivery, key=life.identity.job_id
            )
            stack.push_async_callback(listening.stop)
            answering = await self._bus.answer(what="ping", key=life.identity.node_id, reply=self._reporter.answer_ping)
            stack.push_async_callback(answering.stop)
            await self._catch_up.mark_past()
            life.advance(AgentEvent.CONNECTED)
            self._reporter.report()
            await self._until_ended()
        assert life.exit_code is not None, "ended is set together with the code"
        self._reporter.leave(life.farewell)
        return int(life.exit_code)

    async def _until_ended(self) -> None:
        work = (
            self._reporter.beat_forever(),
            self._catch_up.forever(),
            self._settle_in(),
            self._watch_connection(),
            *(start() for start in self._beside),
        )
        tasks = {asyncio.create_task(part) for part in work}
        ended = asyncio.create_task(self._life.ended.wait())
        try:
            while not ended.done():
                await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in tasks if task.done()]:
                    tasks.discard(task)
                    task.result()  # a loop that broke is a bug; it must not leave a deaf agent behind
        finally:
            for task in tasks:
                task.cancel()
            ended.cancel()
            await asyncio.gather(*tasks, ended, return_exceptions=True)

    async def on_reconnected(self) -> None:
        """The server may have a new planner and newer commands: say who we are, and look."""
        self._reporter.report()
        await self._catch_up.once()

    async def _settle_in(self) -> None:
        await self._catch_up.once()
        admission = await self._reporter.ask_admission()
        if admission.admitted is False:
            self._announcer.say(f"the planner does not take this node into the job: {admission.reason}")
            self._life.advance(AgentEvent.LEAVE)
            self._life.end(ExitCode.BAD_SETTINGS, f"not admitted: {admission.reason}")
        elif admission.admitted and admission.reason:
            self._announcer.say(admission.reason)

    async def _watch_connection(self) -> None:
        away = False
        while True:
            await self._clock.sleep(WATCH_INTERVAL_S)
            if self._is_connected() != away:
                continue
            away = not away
            if away:
                self._announcer.say("the bus is away: training goes on, events are kept and sent when it is back")
            else:
                self._announcer.say("the bus is back")

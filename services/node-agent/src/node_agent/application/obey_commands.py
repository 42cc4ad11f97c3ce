"""The one door for commands, pushed or found by a catch-up: fence, journal, carry out, answer. One at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from fault_contracts.agent import CommandRefused
from fault_contracts.commands import Command, EndJob, StartWorkers, StopWorkers
from fault_contracts.envelope import Envelope, EnvelopeError, open_envelope
from fault_contracts.payload import Payload
from fault_contracts.preemption import RequestCheckpoint
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer, CommandJournal, JournalEntry
from node_agent.application.end_job import JobEnd
from node_agent.application.outgoing import Outgoing
from node_agent.application.request_checkpoint import CheckpointAsk, RequestRefused
from node_agent.application.start_workers import TableGap, WorkerStart
from node_agent.application.stop_workers import WorkerStop
from node_agent.domain.agent_state import TransitionRefused
from node_agent.domain.fence import FenceVerdict, Ruling, judge, owed, point_of
from node_agent.domain.planner_clock import PlannerClock, heard
from service_kit.ports import Clock, Delivery

COMMANDS: tuple[type[Command], ...] = (StopWorkers, StartWorkers, EndJob, RequestCheckpoint)


class CommandIntake:
    """Carries out each command once, and answers every one."""

    def __init__(
        self,
        life: AgentLife,
        journal: CommandJournal,
        start: WorkerStart,
        stop: WorkerStop,
        end: JobEnd,
        outgoing: Outgoing,
        clock: Clock,
        announcer: Announcer,
        checkpoint: CheckpointAsk,
    ) -> None:
        self._life = life
        self._journal = journal
        self._start = start
        self._stop = stop
        self._end = end
        self._checkpoint = checkpoint
        self._outgoing = outgoing
        self._clock = clock
        self._announcer = announcer
        self._one_at_a_time = asyncio.Lock()
        self._planner_clock: PlannerClock | None = None

    async def on_delivery(self, delivery: Delivery) -> None:
        """Handle a pushed command."""
        await self.handle(delivery.envelope, pushed=True)

    async def between_commands(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do something that no command may interrupt, and that interrupts none."""
        async with self._one_at_a_time:
            await act()

    async def handle(self, envelope: Envelope[Any], *, pushed: bool) -> None:
        """Rule, carry out, answer.

        Args:
            envelope: a command of this job.
            pushed: False for a catch-up, which finds the same old command again and again: what is stale or was done
                before is then no news, and nobody is told.
        """
        command = envelope.data
        assert isinstance(command, COMMANDS), "the subscription names these types only"
        if command.job_id != self._life.identity.job_id:
            return
        if pushed:
            self._life.hear_planner(self._clock)
        async with self._one_at_a_time:
            entry = self._journal.find(command.operation_id)
            newest = self._journal.newest(command.job_id)
            now = self._planner_time(command, envelope)
            verdict = judge(command, newest=newest, done_before=entry is not None, now=now)
            match verdict.ruling:
                case Ruling.OBEY:
                    await self._obey(command, envelope.id)
                case Ruling.REPEAT:
                    assert entry is not None, "a repeat is a command that the journal has"
                    await self._repeat(command, entry, envelope.id, pushed=pushed, now=now)
                case Ruling.REFUSE:
                    if pushed:
                        self._refuse(command, verdict, envelope.id)

    def _planner_time(self, command: Command, envelope: Envelope[Any]) -> datetime:
        """Now, in the clock of whoever sent this: our own may be wrong, and what is refused for that stays refused."""
        monotonic_s = self._clock.monotonic_s()
        self._planner_clock = heard(self._planner_clock, command, sent_at=envelope.time, monotonic_s=monotonic_s)
        return self._planner_clock.now(monotonic_s)

    async def _obey(self, command: Command, causation_id: str) -> None:
        identity = self._life.identity
        self._journal.begin(
            command.operation_id,
            job_id=command.job_id,
            point=point_of(command),
            instance_id=identity.instance_id,
        )
        outcome = await self._carry_out(command)
        if outcome is None:
            return
        answer = self._outgoing.send(
            outcome, urgent=True, causation_id=causation_id, correlation_id=command.fence.incident_id
        )
        self._journal.finish(command.operation_id, answer.to_bytes())

    async def _carry_out(self, command: Command) -> Payload | None:
        try:
            if isinstance(command, StopWorkers):
                return await self._stop.carry_out(command)
            if isinstance(command, StartWorkers):
                return await self._start.carry_out(command)
            if isinstance(command, RequestCheckpoint):
                self._checkpoint.carry_out(command)
                return None
            assert isinstance(command, EndJob), "COMMANDS names four types"
            await self._end.carry_out(command)
            return None
        except TransitionRefused as refusal:
            return self._refusal(command, "illegal_transition", str(refusal))
        except TableGap as gap:
            # A spare that came after the start before this one: the planner learns so, and nothing is wrong.
            said = None if self._life.handles else "standing by; the whole rank table comes when this node is needed"
            return self._refusal(command, "table_gap", str(gap), said=said)
        except RequestRefused as refused:
            return self._refusal(command, refused.code, str(refused))

    async def _repeat(
        self, command: Command, entry: JournalEntry, causation_id: str, *, pushed: bool, now: datetime
    ) -> None:
        """Answer with the stored outcome. A stop of an earlier life is done anew: its answer is owed."""
        if entry.instance_id != self._life.identity.instance_id:
            # Its workers ended with the agent that started them, and AgentReported has told that this is a new life.
            over = isinstance(command, StartWorkers | RequestCheckpoint)
            over = over or not owed(command, self._journal.newest(command.job_id))
            if not over and command.expires_at > now:
                await self._obey(command, causation_id)
            return
        if not pushed or entry.outcome is None:
            return
        try:
            stored = open_envelope(entry.outcome)
        except EnvelopeError as error:
            self._announcer.say(f"the journal holds an unreadable outcome of {command.operation_id}: {error}")
            return
        self._outgoing.send(
            stored.data, urgent=True, causation_id=causation_id, correlation_id=command.fence.incident_id
        )

    def _refuse(self, command: Command, verdict: FenceVerdict, causation_id: str) -> None:
        refusal = self._refusal(command, verdict.code, verdict.reason.sentence)
        self._outgoing.send(refusal, urgent=True, causation_id=causation_id, correlation_id=command.fence.incident_id)

    def _refusal(self, command: Command, code: str, message: str, *, said: str | None = None) -> CommandRefused:
        self._announcer.say(said or f"refused {type(command).__name__}: {message}")
        return CommandRefused(
            node_id=self._life.identity.node_id,
            instance_id=self._life.identity.instance_id,
            job_id=command.job_id,
            operation_id=command.operation_id,
            topology_version=command.fence.topology_version,
            code=code,
            message=message[:2_048],
        )

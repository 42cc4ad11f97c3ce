"""Told to go while ranks train: first a checkpoint of the whole gang, then the leave. Never longer than the limit.

The notice goes to the planner, which asks every agent of the gang for a checkpoint after one step, and orders the stop
when it is saved. A gang that is this node alone is asked at once, with or without a planner.
"""

from __future__ import annotations

import asyncio
from signal import Signals

from fault_contracts.agent import AgentPhase
from fault_contracts.preemption import PreemptionNoticed
from node_agent.application.agent_life import AgentLife
from node_agent.application.checkpoint_ports import CheckpointLine
from node_agent.application.control_ports import Announcer
from node_agent.application.outgoing import Outgoing
from node_agent.application.request_checkpoint import CheckpointAsk, RequestRefused
from node_agent.domain.farewell_checkpoint import FarewellPlan, plan_farewell
from service_kit.ports import Clock

NOTICE_S_MAX = 86_400.0
"""PreemptionNoticed.within_s takes so much."""


class Farewell:
    """The use case of `leave_job` before ranks are stopped."""

    def __init__(
        self,
        life: AgentLife,
        line: CheckpointLine,
        ask: CheckpointAsk,
        outgoing: Outgoing,
        clock: Clock,
        announcer: Announcer,
    ) -> None:
        self._life = life
        self._line = line
        self._ask = ask
        self._outgoing = outgoing
        self._clock = clock
        self._announcer = announcer

    async def checkpoint(self, number: Signals, *, within_s: float, hurry: asyncio.Event) -> bool:
        """Ask for a checkpoint and wait for the stop that follows it.

        Returns:
            True when the gang was asked, however it went; False: nobody was, and the ranks should get the signal.
        """
        life = self._life
        version = life.topology_version
        plan = plan_farewell(
            life.pace,
            phase=life.phase,
            topology_version=version,
            links=sum(self._line.links(handle) for handle in life.handles),
            within_s=within_s,
        )
        if plan.at_step is None:
            self._announcer.say(f"{number.name}: no checkpoint is asked for: {plan.reason.sentence}")
            return False
        self._announcer.say(
            f"{number.name}: a checkpoint of the gang comes first (up to {within_s:g} s; once more to stop at once)"
        )
        self._notice(number, plan.at_step, version, within_s)
        if len(life.table.rows) == 1:
            self._ask_alone(plan, plan.at_step, within_s)
        how = await self._until_stopped(within_s, hurry)
        self._announcer.say(f"{number.name}: {how}")
        return True

    def _notice(self, number: Signals, at_step: int, version: int, within_s: float) -> None:
        identity = self._life.identity
        self._outgoing.send(
            PreemptionNoticed(
                node_id=identity.node_id,
                instance_id=identity.instance_id,
                job_id=identity.job_id,
                topology_version=version,
                at_step=at_step,
                within_s=min(within_s, NOTICE_S_MAX),
                reason=f"{number.name} to the agent",
                noticed_at=self._clock.now(),
            ),
            urgent=True,
        )

    def _ask_alone(self, plan: FarewellPlan, at_step: int, within_s: float) -> None:
        try:
            self._ask.ask(at_step=at_step, within_s=min(within_s, NOTICE_S_MAX), why=plan.reason.sentence)
        except RequestRefused as refusal:
            self._announcer.say(f"the ranks were not asked: {refusal}")

    async def _until_stopped(self, within_s: float, hurry: asyncio.Event) -> str:
        """Wait until the ranks were stopped by order, are broken, or the patience is over; returns which, in words."""
        hurried = asyncio.create_task(hurry.wait())
        settled = asyncio.create_task(self._settled())
        try:
            await asyncio.wait((hurried, settled), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if settled.done():
                return settled.result()
            return "told to hurry" if hurried.done() else f"the checkpoint was not reported within {within_s:g} s"
        finally:
            hurried.cancel()
            settled.cancel()
            await asyncio.gather(hurried, settled, return_exceptions=True)

    async def _settled(self) -> str:
        life = self._life
        while True:
            life.phase_news.clear()
            match life.phase:
                case AgentPhase.READY:
                    return "the ranks were stopped by the planner's order"
                case AgentPhase.FAULTED:
                    return "a rank failed meanwhile"
                case AgentPhase.COMPLETED:
                    return "the ranks ended by themselves"
                case AgentPhase.INIT | AgentPhase.SHUTDOWN:
                    return "the job is over"
                case AgentPhase.RUNNING | AgentPhase.STOPPING:
                    await life.phase_news.wait()

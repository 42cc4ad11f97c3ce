"""Dead-man: look for a sign of the planner, and when there is none for too long, act by the user's policy.

Signs of life are commands that arrive, and answers to the question that a standby planner asks too: does somebody
lead? It costs one small request, only when nothing was heard for a while, and a bus without a planner cannot fake it.
"""

from __future__ import annotations

from fault_contracts.agent import AgentPhase
from fault_contracts.lone_agent import AgentActedAlone
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.obey_commands import CommandIntake
from node_agent.application.outgoing import Outgoing
from node_agent.application.report_agent import AgentReporter
from node_agent.application.stop_workers import WorkerStop, counted, exit_status
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.dead_man import Act, DeadManPolicy, DeadManStep, Ranks, step
from service_kit.errors import TransientError
from service_kit.ports import Bus, Clock

LOOKS_PER_LIMIT = 6
"""So many questions go unanswered before the planner counts as lost."""
LOOK_EVERY_S_MIN = 0.1
LOOK_EVERY_S_MAX = 10.0
"""12,500 agents ask the planner 1,250 times a second at most, and at the default limit no more often."""
ASK_TIMEOUT_S = 2.0
_PIDS_MAX = 1_024
"""AgentActedAlone.stuck_pids takes so many."""


class DeadMan:
    """One timer beside the agent's main line."""

    def __init__(
        self,
        life: AgentLife,
        bus: Bus,
        intake: CommandIntake,
        stop: WorkerStop,
        reporter: AgentReporter,
        outgoing: Outgoing,
        clock: Clock,
        announcer: Announcer,
        *,
        policy: DeadManPolicy,
    ) -> None:
        self._life = life
        self._bus = bus
        self._intake = intake
        self._stop = stop
        self._reporter = reporter
        self._outgoing = outgoing
        self._clock = clock
        self._announcer = announcer
        self._policy = policy
        self._silent = False
        self._acted = ""
        self._look_every_s = min(max(policy.silence_s_max / LOOKS_PER_LIMIT, LOOK_EVERY_S_MIN), LOOK_EVERY_S_MAX)

    async def forever(self) -> None:
        """Look again and again, until cancelled."""
        self._life.planner_heard_s = self._clock.monotonic_s()
        while True:
            await self._clock.sleep(self._look_every_s)
            await self.look()

    async def look(self) -> None:
        """Ask when nothing was heard lately, then decide and act."""
        if self._silent_s() >= self._look_every_s:
            await self._ask()
        decided = self._decide()
        if decided.act is Act.STOP:
            # A command that is being carried out has the ranks in its hands; after it everything may be different.
            await self._intake.between_commands(self._stand_down)
            return
        self._take_note(decided)

    def _silent_s(self) -> float:
        return self._clock.monotonic_s() - self._life.planner_heard_s

    async def _ask(self) -> None:
        try:
            answer = await self._bus.ask(what="planner", key="leader", timeout_s=ASK_TIMEOUT_S)
        except TransientError:
            # No bus, or nobody answers in time: both are the silence that is measured here.
            return
        if answer is not None:
            self._life.hear_planner(self._clock)

    def _decide(self) -> DeadManStep:
        return step(was_silent=self._silent, silent_s=self._silent_s(), ranks=self._ranks(), policy=self._policy)

    def _ranks(self) -> Ranks:
        life = self._life
        match life.phase:
            case AgentPhase.RUNNING:
                return Ranks.TRAIN
            case AgentPhase.FAULTED:
                return Ranks.BROKEN
            case AgentPhase.READY if life.in_process and life.handles:
                return Ranks.BROKEN
            case AgentPhase.READY | AgentPhase.INIT | AgentPhase.STOPPING | AgentPhase.COMPLETED | AgentPhase.SHUTDOWN:
                return Ranks.NONE

    def _take_note(self, decided: DeadManStep) -> None:
        self._silent = decided.silent
        if not decided.news:
            return
        if decided.silent:
            self._announcer.say(f"{decided.reason.sentence} (--on-planner-lost {self._policy.on_lost})")
            return
        meanwhile = f"; meanwhile {self._acted}" if self._acted else ""
        self._acted = ""
        self._announcer.say(f"{decided.reason.sentence}{meanwhile}")
        # A planner that was restarted should not have to wait for a heartbeat to know us.
        self._reporter.report()

    async def _stand_down(self) -> None:
        decided = self._decide()
        if decided.act is not Act.STOP:
            self._take_note(decided)
            return
        self._silent = True
        life = self._life
        silent_s, running = self._silent_s(), len(life.handles)
        self._announcer.say(f"{decided.reason.sentence}: stopping them to free what they hold")
        outcome = await self._stop.stop_group(AgentEvent.STAND_DOWN, grace_s=life.spec.stop_grace_s)
        self._acted = f"this node stopped its {counted(running)}"
        self._announcer.say(f"stopped {counted(running)}; this node is ready for the planner's next start")
        stuck = [handle.pid for handle in outcome.unkillable] + list(outcome.leftover_pids)
        self._outgoing.send(
            AgentActedAlone(
                node_id=life.identity.node_id,
                instance_id=life.identity.instance_id,
                job_id=life.identity.job_id,
                topology_version=life.topology_version,
                policy=self._policy.on_lost,
                silent_s=silent_s,
                exits=tuple(exit_status(ended) for ended in outcome.exits if ended.requested),
                stuck_pids=tuple(stuck[:_PIDS_MAX]),
                reason=decided.reason,
                acted_at=self._clock.now(),
            ),
            urgent=True,
        )

"""Live hang detection: marks of progress in, a look at the ranks when they stay away, and the report when it is a hang.

One loop looks at the processes a few times a second and asks the pure watch whether the node is late. Lateness alone
decides nothing: it begins an inquiry, which takes evidence, asks the rules, and looks again when they wish so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fault_contracts.agent import AgentPhase
from fault_contracts.health import RankCheck
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.ports import WorkerHandle
from node_agent.application.report_rank_faults import RankFault, RankFaultReporter, Suspected
from node_agent.application.share_stalls import ROUND_S, StallExchange
from node_agent.application.take_looks import LookTaker
from node_agent.application.watch_states import POLL_S, StateBoard
from node_agent.domain.hang_policies import DetectionMode, DetectionPolicy, ProgressSource
from node_agent.domain.hang_rules import suspect
from node_agent.domain.hang_verdict import HangKind, HangVerdict
from node_agent.domain.progress_watch import (
    Pace,
    PhaseBegan,
    PhaseEnded,
    PhaseRecognised,
    ProgressView,
    ProgressWatch,
    StepFinished,
    TimeLost,
    WatchEvent,
    WorkersRestarted,
    after,
    look,
)
from node_agent.domain.rank_evidence import RankEvidence, Whereabouts
from node_agent.domain.step_times import TrainingPhase
from service_kit.logging import get_logger
from service_kit.ports import Clock
from training_topology.identity import NodeId, Rank

LOST_S_MIN = 1.0
"""The loop woke so much too late: the agent itself was held up, and cannot say what others did meanwhile."""
_CHECKS = {"hang_stopped": RankCheck.PROCESS_STOPPED, "hang_blocked": RankCheck.PROCESS_BLOCKED}

log = get_logger(__name__)


class HangWatch:
    """Watches the ranks of this node while they run."""

    def __init__(
        self,
        life: AgentLife,
        faults: RankFaultReporter,
        board: StateBoard,
        looks: LookTaker,
        clock: Clock,
        announcer: Announcer,
        policy: DetectionPolicy,
        stalls: StallExchange,
    ) -> None:
        self._life = life
        self._faults = faults
        self._board = board
        self._looks = looks
        self._clock = clock
        self._announcer = announcer
        self._policy = policy
        self._stalls = stalls
        self._source = ProgressSource.CPU
        self._watch = ProgressWatch(since_s=clock.monotonic_s())
        self._version = 0
        self._inquiry: asyncio.Task[None] | None = None
        self._next_inquiry_s = 0.0
        self._stop_known = False
        self._told: set[str] = set()

    async def run(self) -> None:
        """Look until cancelled. Its own failure is told, and training goes on without it."""
        if self._policy.mode is DetectionMode.OFF:
            return
        try:
            await self._look_forever()
        except Exception as error:
            log.exception("hang_detection_ended")
            self._announcer.say(f"hang detection has ended by a defect of its own: {error!r}; training goes on")
        finally:
            if self._inquiry is not None:
                self._inquiry.cancel()
                await asyncio.gather(self._inquiry, return_exceptions=True)
            await self._stalls.stop()

    def on_step(self, step: int) -> None:
        """The node as a whole finished a step."""
        if not self._is_watching():
            return
        if self._source is ProgressSource.CPU:
            # The best source from now on, also in the generations to come.
            self._source = ProgressSource.STEPS
            self._watch = ProgressWatch(since_s=self._watch.since_s, declared=self._watch.declared)
        self._note(StepFinished(step=step))

    def on_phase(self, handle: WorkerHandle, phase: TrainingPhase | None) -> None:
        """A rank declared a phase, or its end."""
        if self._is_watching() and handle.topology_version == self._version:
            rank = handle.rank
            self._note(PhaseEnded(rank=rank) if phase is None else PhaseBegan(rank=rank, phase=phase))

    async def _look_forever(self) -> None:
        before_s = self._clock.monotonic_s()
        while True:
            await self._clock.sleep(POLL_S)
            now_s = self._clock.monotonic_s()
            self.look(late_s=now_s - before_s - POLL_S)
            before_s = now_s

    def look(self, *, late_s: float = 0.0) -> None:
        """One look; begins an inquiry when there is reason for one. `late_s`: so much later than it was due."""
        if self._inquiry is not None and self._inquiry.done():
            ended, self._inquiry = self._inquiry, None
            ended.result()
        if not self._is_watching():
            return
        now_s = self._clock.monotonic_s()
        if late_s >= LOST_S_MIN:
            self._board.forgive(late_s)
            self._note(TimeLost(lost_s=late_s))
        self._board.look(self._handles(), now_s=now_s)
        mark = self._board.cpu_mark(now_s=now_s) if self._source is ProgressSource.CPU else None
        if mark is not None:
            self._note(StepFinished(step=mark))
        stopped = self._board.any_stopped()
        if not stopped and not self._is_late():
            self._looks.forget()
            self._next_inquiry_s = 0.0
        elif self._inquiry is None and (now_s >= self._next_inquiry_s or (stopped and not self._stop_known)):
            self._inquiry = asyncio.create_task(self._inquire(self._version))
        self._stop_known = stopped

    def _is_watching(self) -> bool:
        """A whole group runs. With the first rank that ended by 0 the job's end begins, which has no pace to judge."""
        life, group = self._life, self._life.group
        if life.phase is not AgentPhase.RUNNING or group is None or group.succeeded or not life.handles:
            return False
        if group.topology_version != self._version:
            self._version = group.topology_version
            self._board.clear()
            self._looks.forget()
            self._told.clear()
            self._note(WorkersRestarted())
        return True

    def _handles(self) -> list[WorkerHandle]:
        return [handle for handle in self._life.handles if handle.topology_version == self._version]

    def _note(self, event: WatchEvent) -> None:
        policy = self._policy.progress_of(self._source)
        self._watch = after(self._watch, event, now_s=self._clock.monotonic_s(), policy=policy)

    def _view(self) -> ProgressView:
        policy = self._policy.progress_of(self._source)
        return look(self._watch, now_s=self._clock.monotonic_s(), policy=policy)

    def _is_late(self) -> bool:
        return self._view().pace is not Pace.ON_TIME

    async def _inquire(self, version: int) -> None:
        """Take evidence once, judge it, and act or say when to look again."""
        evidence = await self._looks.take(self._handles())
        if not self._is_watching() or self._version != version:
            return
        world_size = len(evidence) if self._life.start is None else self._life.start.world_size
        hang, view = self._policy.hang_of(self._source), self._view()
        verdict = suspect(view, evidence, world_size=world_size, policy=hang)
        is_shared = world_size > len(evidence) and view.pace is not Pace.ON_TIME and not verdict.is_hang
        if is_shared:
            verdict = await self._with_others(verdict, evidence, view, world_size)
            if not self._is_watching() or self._version != version:
                return
        self._tell(verdict)
        if verdict.recognised is not None:
            self._note(PhaseRecognised(phase=verdict.recognised))
        if verdict.is_hang and self._policy.mode is DetectionMode.ON:
            self._report(verdict)
        wait_s = hang.look_again_s_max if verdict.look_again_s is None else verdict.look_again_s
        if is_shared:
            wait_s = min(wait_s, ROUND_S)
        self._next_inquiry_s = self._clock.monotonic_s() + wait_s

    async def _with_others(
        self, own: HangVerdict, evidence: Mapping[Rank, RankEvidence], view: ProgressView, world_size: int
    ) -> HangVerdict:
        """The verdict over all nodes that tell, where it is this node's to act on; else the own one."""
        if any(seen.stack is not None and seen.moved is None for seen in evidence.values()):
            return own  # a first look does not show yet who is idle
        row = self._life.table.row_of(NodeId(self._life.identity.node_id))
        is_first = row is not None and row.node_rank == 0
        waits = all(seen.whereabouts is Whereabouts.WAITING for seen in evidence.values())
        await self._stalls.tell(self._version, evidence, view, listen=is_first or not waits)
        gang = {**self._stalls.others(self._version), **evidence}
        verdict = suspect(view, gang, world_size=world_size, policy=self._policy.hang_of(self._source))
        if not verdict.is_hang:
            return own
        # Whoever is idle or stopped is told by its own node, which has the evidence. Nobody, and ranks that wait in
        # another collective than the rest, are told by the first node.
        nameless = all(gang[rank].whereabouts is Whereabouts.WAITING for rank in verdict.suspects)
        return verdict if set(verdict.suspects) & evidence.keys() or (is_first and nameless) else own

    def _report(self, verdict: HangVerdict) -> None:
        self._faults.report(
            RankFault(
                check=_CHECKS.get(verdict.rule_id, RankCheck.HANG),
                rule_id=verdict.rule_id,
                suspects=tuple(
                    Suspected(rank=rank, evidence=self._looks.describe(rank), place=self._looks.place(rank))
                    for rank in self._own(verdict)
                ),
                reason=verdict.sentence,
                silent_s=self._view().age_s,
                files=self._looks.files(verdict),
            )
        )

    def _own(self, verdict: HangVerdict) -> list[Rank]:
        own = {handle.rank for handle in self._handles()}
        return [rank for rank in verdict.suspects if rank in own]

    def _tell(self, verdict: HangVerdict) -> None:
        """Each rule once per generation in the agent's log; a hang that nobody acts on, on the terminal as well."""
        if verdict.rule_id in self._told or verdict.kind is HangKind.ON_TIME:
            return
        self._told.add(verdict.rule_id)
        log.info(
            "no_progress",
            job_id=self._life.identity.job_id,
            topology_version=self._version,
            kind=verdict.kind,
            rule_id=verdict.rule_id,
            reason=verdict.sentence,
            suspects=list(verdict.suspects)[:32],
        )
        if verdict.is_hang and self._policy.mode is DetectionMode.OBSERVE:
            self._announcer.say(f"a hang, not acted on (--hang-detection observe): {verdict.sentence[:500]}")

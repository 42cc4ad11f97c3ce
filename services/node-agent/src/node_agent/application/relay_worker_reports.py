"""What workers say over worker-link becomes the node's reports: steps thinned out, checkpoints and labels at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fault_contracts.agent import RankLabelsReported, StepReported
from node_agent.application.agent_life import AgentLife
from node_agent.application.block_reports import BlockReports
from node_agent.application.control_ports import Announcer
from node_agent.application.discover_checkpoints import CheckpointDiscovery
from node_agent.application.outgoing import Outgoing
from node_agent.application.ports import WorkerHandle
from node_agent.application.report_step_times import StepTimesReporter
from node_agent.domain.step_times import TrainingPhase
from service_kit.ports import Clock
from training_topology.identity import LocalRank, Rank
from worker_link.block_messages import BlockMessage
from worker_link.messages import CheckpointSaved, Hello, RankLabels, RestartRequest, Step, StepPhase
from worker_link.phase_messages import PhaseBegun, PhaseDone

STEP_INTERVAL_S = 1.0
"""Between two StepReported of a node, but for the first of a generation, which is never held back."""
BAD_CLIENTS_TOLD_MAX = 5
"""Lines on the terminal about refused connections; a broken script could otherwise fill it."""


class WorkerReportRelay:
    """application.ports.WorkerReports for the launcher.

    Attributes:
        on_advance: called with each step that the node as a whole finished.
        on_declared: called when a rank of the present generation declares a long phase, or (None) its end.
    """

    def __init__(
        self,
        life: AgentLife,
        outgoing: Outgoing,
        clock: Clock,
        announcer: Announcer,
        blocks: BlockReports,
        checkpoints: CheckpointDiscovery,
    ) -> None:
        self._life = life
        self.step_times = StepTimesReporter(life, outgoing, clock)
        self._checkpoints = checkpoints
        self._blocks = blocks
        self._outgoing = outgoing
        self._clock = clock
        self._announcer = announcer
        self._next_report_s = 0.0
        self._later: asyncio.TimerHandle | None = None
        self.on_advance: Callable[[int], None] = lambda _step: None
        self.on_declared: Callable[[WorkerHandle, TrainingPhase | None], None] = lambda _handle, _phase: None
        self._step_tellers: set[LocalRank] = set()
        self.bad_clients = 0
        """Refused connections and reports so far."""

    def on_hello(self, handle: WorkerHandle, message: Hello) -> None:
        """Nothing to report: a worker that reports nothing else is a worker without reports."""

    def on_step(self, handle: WorkerHandle, message: Step) -> None:
        """Take note of a finished step."""
        self._step_tellers.add(handle.local_rank)
        if message.phase is StepPhase.FINISHED:
            version = message.topology_version or handle.topology_version
            at_s, busy_s = message.at_monotonic_s, message.busy_s
            self.finish_step(handle.local_rank, message.step, topology_version=version, at_s=at_s, busy_s=busy_s)

    def tells_steps(self, local_rank: LocalRank) -> bool:
        """Whether the rank's script reports its steps itself; what is read from its output then adds nothing."""
        return local_rank in self._step_tellers

    def finish_step(
        self,
        local_rank: LocalRank,
        step: int,
        *,
        topology_version: int,
        at_s: float | None = None,
        busy_s: float | None = None,
    ) -> None:
        """A rank finished a step, whoever says so: the script over worker-link, or a log rule.

        `at_s` is when, by the rank's clock (None: now), and `busy_s` its own work, where that is known.
        """
        life, version = self._life, topology_version
        if not self._is_current(version) or life.progress is None:
            return
        now_s = self._clock.monotonic_s()
        life.pace = life.pace.after(step, topology_version=version, at_s=now_s)
        life.notes.step(local_rank, version, step, now_s=now_s)
        self.step_times.on_step(local_rank, step, at_s=now_s if at_s is None else at_s, busy_s=busy_s)
        life.progress, advance = life.progress.after_step(local_rank, step)
        if advance is None:
            return
        self.on_advance(advance.step)
        if advance.first:
            self._report(version, advance.step, first=True)
        elif self._clock.monotonic_s() >= self._next_report_s:
            self._report(version, advance.step, first=False)
        elif self._later is None:
            wait_s = self._next_report_s - self._clock.monotonic_s()
            self._later = asyncio.get_running_loop().call_later(wait_s, self._report_newest, version)

    def on_checkpoint(self, handle: WorkerHandle, message: CheckpointSaved) -> None:
        """Pass on one rank's confirmation. One of an older generation still names a durable file, so it counts."""
        self.confirm_checkpoint(
            handle.rank,
            topology_version=message.topology_version or handle.topology_version,
            step=message.step,
            path=message.path,
            kind=message.kind or "model",
            writers=message.writers or None,
            source="worker_link",
        )

    def confirm_checkpoint(
        self,
        rank: Rank,
        *,
        topology_version: int,
        step: int,
        path: str,
        kind: str,
        writers: int | None,
        source: str = "a log rule",
    ) -> None:
        """A rank's part of a checkpoint is durable, whoever says so: the script over worker-link, or a log rule."""
        self._checkpoints.confirm(
            rank,
            step=step,
            path=path,
            source=source,
            kind=kind,
            writers=writers,
            topology_version=topology_version,
        )

    def on_phase(self, handle: WorkerHandle, message: PhaseBegun | PhaseDone) -> None:
        """A long phase that is no hang. A name that is not known is as long as an evaluation."""
        if not self._is_current(message.topology_version or handle.topology_version):
            return
        if isinstance(message, PhaseDone):
            self.on_declared(handle, None)
            return
        is_checkpoint = message.phase == TrainingPhase.CHECKPOINT
        self.on_declared(handle, TrainingPhase.CHECKPOINT if is_checkpoint else TrainingPhase.EVALUATION)

    def on_labels(self, handle: WorkerHandle, message: RankLabels) -> None:
        """Pass on the rank's place in the parallel layout."""
        self._life.notes.labels(handle.local_rank, message.labels)
        self.step_times.on_labels(handle.local_rank, message.labels)
        self._outgoing.send(
            RankLabelsReported(
                node_id=self._life.identity.node_id,
                job_id=self._life.identity.job_id,
                topology_version=handle.topology_version,
                rank=handle.rank,
                labels=dict(message.labels),
            )
        )

    def on_restart_request(self, handle: WorkerHandle, message: RestartRequest) -> None:
        """Pass the wish on; it breaks the generation like a fault."""
        self._blocks.on_restart_request(handle, message)

    def on_block(self, handle: WorkerHandle, message: BlockMessage) -> None:
        """See block_reports."""
        self._blocks.on_block(handle, message)

    def on_block_lost(self, handle: WorkerHandle) -> None:
        """See block_reports."""
        self._blocks.on_block_lost(handle)

    def on_bad_client(self, pid: int, reason: str) -> None:
        """A refused connection; told a few times, then only counted."""
        self.bad_clients += 1
        if self.bad_clients <= BAD_CLIENTS_TOLD_MAX:
            self._announcer.say(f"a report of process {pid} was refused: {reason[:200]}")

    def _is_current(self, topology_version: int) -> bool:
        group = self._life.group
        return group is not None and group.topology_version == topology_version

    def _report_newest(self, topology_version: int) -> None:
        self._later = None
        group, progress = self._life.group, self._life.progress
        if group is None or progress is None or group.topology_version != topology_version or progress.step is None:
            return
        self._report(topology_version, progress.step, first=False)

    def _report(self, topology_version: int, step: int, *, first: bool) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._next_report_s = self._clock.monotonic_s() + STEP_INTERVAL_S
        self._outgoing.send(
            StepReported(
                node_id=self._life.identity.node_id,
                job_id=self._life.identity.job_id,
                topology_version=topology_version,
                step=step,
                first=first,
                reported_at=self._clock.now(),
            ),
            urgent=first,
        )

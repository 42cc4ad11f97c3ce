"""Every end of a worker: an unexpected one is told to the planner at once, the last clean one completes the node."""

from __future__ import annotations

from fault_contracts.agent import AgentPhase, WorkerExited, WorkersCompleted
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.outgoing import Outgoing
from node_agent.application.ports import WorkerExit
from node_agent.application.stop_workers import counted, exit_status
from node_agent.application.worker_errors import reported_error
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.worker_group import EndKind
from service_kit.ports import Clock

_TAIL_MAX = 50
_TAIL_LINE_MAX = 2_000
"""50 lines of this stay far below the bus's limit of 1 MB a message."""

_WATCHED = (AgentPhase.RUNNING, AgentPhase.FAULTED, AgentPhase.STOPPING)
"""STOPPING too: a rank that was dead when the stop began may be the cause of it all."""
_AT_BARRIER = (AgentPhase.STOPPING, AgentPhase.READY)
"""In in-process mode ranks live on in these phases, and may die."""


class ExitObserver:
    """The callback of WorkerProcesses.on_exit."""

    def __init__(self, life: AgentLife, outgoing: Outgoing, clock: Clock, announcer: Announcer) -> None:
        self._life = life
        self._outgoing = outgoing
        self._clock = clock
        self._announcer = announcer

    def on_exit(self, ended: WorkerExit) -> None:
        """Sort one end. Ends that the agent itself asked for are in the answer to the stop."""
        life = self._life
        for watch in life.watches:
            # First: what they find in its last words changes the group.
            watch.on_exit(ended)
        group = life.group
        if ended.handle.topology_version == life.blocks.topology_version:
            life.note_blocks(life.blocks.gone(ended.handle.local_rank))
        watched = (*_WATCHED, AgentPhase.READY) if life.in_process else _WATCHED
        if ended.requested or life.phase not in watched or group is None:
            return
        if ended.handle.topology_version != group.topology_version:
            return
        step = group.after_exit(ended.handle.local_rank, exit_code=ended.exit_code)
        life.group = step.group
        match step.kind:
            case EndKind.REPEATED | EndKind.RANK_COMPLETED:
                return
            case EndKind.RANK_FAILED:
                assert step.ordinal is not None, "a failure is counted"
                self._failed(ended, step.ordinal)
            case EndKind.ALL_COMPLETED if life.phase in _AT_BARRIER:
                return  # it came to its end while the gang was called back; the answer to the stop says who is left
            case EndKind.ALL_COMPLETED:
                self._completed()

    def _failed(self, ended: WorkerExit, ordinal: int) -> None:
        life = self._life
        handle = ended.handle
        step = None if life.progress is None else life.progress.step_of(handle.local_rank)
        files = life.program.files(handle.topology_version, handle.local_rank)
        self._outgoing.send(
            WorkerExited(
                node_id=life.identity.node_id,
                instance_id=life.identity.instance_id,
                job_id=life.identity.job_id,
                topology_version=handle.topology_version,
                ordinal=ordinal,
                exit=exit_status(ended),
                error=None if ended.error is None else reported_error(ended.error),
                step=step,
                checkpoint_step=life.checkpoint_step,
                ran_s=max(0.0, ended.ran_s),
                stderr_tail=tuple(line[:_TAIL_LINE_MAX] for line in ended.stderr_tail[-_TAIL_MAX:]),
                log_dir=str(files.directory),
                observed_at=ended.exited_at,
            ),
            urgent=True,
        )
        if life.phase is not AgentPhase.STOPPING:
            life.advance(AgentEvent.RANK_FAILED)
        if ordinal == 0:
            life.first_failure = ended
        self._announcer.say(_death_line(ended, step))

    def _completed(self) -> None:
        life = self._life
        assert life.group is not None, "the group has just been seen to complete"
        self._outgoing.send(
            WorkersCompleted(
                node_id=life.identity.node_id,
                instance_id=life.identity.instance_id,
                job_id=life.identity.job_id,
                topology_version=life.group.topology_version,
                completed_at=self._clock.now(),
            ),
            urgent=True,
        )
        life.advance(AgentEvent.ALL_COMPLETED)
        self._announcer.say(f"this node is through: {counted(life.group.nproc)} ended with exit code 0")


def _death_line(ended: WorkerExit, step: int | None) -> str:
    place = "" if step is None else f" after step {step}"
    oom = ", by the kernel's OOM killer" if ended.oom_kill.value == "yes" else ""
    cause = ""
    if ended.error is not None and ended.error.type:
        message = ended.error.message.strip().splitlines()
        cause = f": {ended.error.type}" + (f": {message[0][:200]}" if message else "")
    return f"rank {ended.handle.rank} died ({ended.status}{oom}){place}{cause}"

"""What ranks say about their re-executable blocks: who can restart in place, who failed without dying, who is back."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from fault_contracts.agent import AgentPhase, ExitStatus, RestartAsked, WorkerExited
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.outgoing import Outgoing
from node_agent.application.ports import WorkerError, WorkerExit, WorkerHandle
from node_agent.application.worker_errors import error_of_text, reported_error
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.block_ranks import BlockPlace
from node_agent.domain.worker_group import EndKind
from service_kit.ports import Clock
from worker_link.block_messages import AtBarrier, BlockEntered, BlockFaulted, BlockFinished, BlockMessage
from worker_link.messages import RestartRequest

_SEVERITY = {RestartAsked.IN_PROCESS: 0, RestartAsked.PROCESS: 1, RestartAsked.JOB: 2}
_LIVE = (AgentPhase.RUNNING, AgentPhase.FAULTED)


class BlockReports:
    """Keeps AgentLife.blocks, and reports faults that end no process.

    Attributes:
        announce: called when every rank of the node has announced its block for the first time.
    """

    def __init__(self, life: AgentLife, outgoing: Outgoing, clock: Clock, announcer: Announcer) -> None:
        self._life = life
        self._outgoing = outgoing
        self._clock = clock
        self._announcer = announcer
        self._asked: tuple[int, RestartAsked] | None = None
        self.announce: Callable[[], None] = lambda: None

    def on_block(self, handle: WorkerHandle, message: BlockMessage) -> None:
        """Take one word in. One of an older generation, or one that its place does not allow, changes nothing."""
        match message:
            case BlockEntered():
                if self._move(handle, message, BlockPlace.INSIDE):
                    self._look_whether_all_are_inside()
            case BlockFaulted():
                if self._move(handle, message, BlockPlace.FAULTED):
                    self._fault(handle, message)
            case AtBarrier(healthy=True):
                self._move(handle, message, BlockPlace.AT_BARRIER)
            case AtBarrier():
                if self._move(handle, message, BlockPlace.UNFIT, reason=message.reason):
                    self._announcer.say(f"rank {handle.rank} gets a new process: {message.reason[:200]}")
            case BlockFinished():
                self._move(handle, message, BlockPlace.OUTSIDE)
            case _:
                assert_never(message)

    def on_block_lost(self, handle: WorkerHandle) -> None:
        """The connection ended, by the process's end or by a bad frame: a stop cannot call this rank back any more."""
        life = self._life
        if handle.topology_version == life.blocks.topology_version:
            life.note_blocks(life.blocks.gone(handle.local_rank))

    def on_restart_request(self, handle: WorkerHandle, message: RestartRequest) -> None:
        """A script asks for a restart. Of several wishes in a generation only a graver one is passed on."""
        asked = RestartAsked(message.mode.value)
        version = handle.topology_version
        if self._life.phase not in _LIVE or self._life.group is None or self._life.group.topology_version != version:
            return
        known = self._asked
        if known is not None and known[0] == version and _SEVERITY[known[1]] >= _SEVERITY[asked]:
            return
        self._asked = (version, asked)
        self._announcer.say(f"rank {handle.rank} asks for a restart ({asked}): {message.reason[:200]}")
        error = WorkerError(
            source="worker_link",
            type="RestartRequested",
            message=message.reason,
            fingerprint=f"restart_requested:{asked}:{message.reason}"[:256],
        )
        self._report(handle, error, step=None, asked=asked)

    def _move(self, handle: WorkerHandle, message: BlockMessage, place: BlockPlace, *, reason: str = "") -> bool:
        life = self._life
        moved = life.blocks.moved(handle.local_rank, place, topology_version=message.topology_version, reason=reason)
        if moved is None:
            self._announcer.say(
                f"rank {handle.rank} said {type(message).__name__} for version {message.topology_version}, which is "
                f"not possible now (version {life.blocks.topology_version}, {life.blocks.place_of(handle.local_rank)})"
            )
            return False
        life.note_blocks(moved)
        return True

    def _look_whether_all_are_inside(self) -> None:
        life = self._life
        if not life.in_process and life.phase is AgentPhase.RUNNING and life.blocks.all_inside:
            life.in_process = True
            self._announcer.say("the script is re-executable: a fault restarts its ranks in place")
            self.announce()

    def _fault(self, handle: WorkerHandle, message: BlockFaulted) -> None:
        error = error_of_text(
            "worker_link", message.error_type, message.message, message.callstack, at=self._clock.now()
        )
        self._report(handle, error, step=message.step, asked=None)
        self._announcer.say(f"rank {handle.rank} failed in its block: {error.type}: {_first_line(error.message)}")

    def _report(
        self, handle: WorkerHandle, error: WorkerError, *, step: int | None, asked: RestartAsked | None
    ) -> None:
        life = self._life
        group = life.group
        if group is None or life.phase not in (*_LIVE, AgentPhase.STOPPING):
            return
        counted = group.after_fault(handle.local_rank)
        life.group = counted.group
        # A rank that asks may have failed already; its wish still counts.
        ordinal = counted.ordinal if counted.kind is EndKind.RANK_FAILED else len(group.failures)
        assert ordinal is not None, "a failure is counted"
        if step is None and life.progress is not None:
            step = life.progress.step_of(handle.local_rank)
        now = self._clock.now()
        self._outgoing.send(
            WorkerExited(
                node_id=life.identity.node_id,
                instance_id=life.identity.instance_id,
                job_id=life.identity.job_id,
                topology_version=handle.topology_version,
                ordinal=ordinal,
                exit=ExitStatus(rank=handle.rank, local_rank=handle.local_rank, pid=handle.pid),
                error=reported_error(error),
                step=step,
                checkpoint_step=life.checkpoint_step,
                ran_s=max(0.0, (now - handle.started_at).total_seconds()),
                log_dir=str(life.program.files(handle.topology_version, handle.local_rank).directory),
                process_alive=True,
                restart_asked=asked,
                observed_at=now,
            ),
            urgent=True,
        )
        if life.phase in _LIVE:
            life.advance(AgentEvent.RANK_FAILED)
        if ordinal == 0:
            life.first_failure = WorkerExit(handle=handle, exited_at=now, error=error, process_alive=True)


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:200] if lines else ""

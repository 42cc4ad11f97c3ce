"""What this agent and its ranks are doing, as values for the status API. Reads, never changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from node_agent.application.agent_life import AgentLife
from node_agent.application.ports import WorkerExit, WorkerHandle, WorkerProcesses
from node_agent.application.status_views import (
    Backlog,
    FaultView,
    ProcessLook,
    RankState,
    RankView,
    StatusView,
    VerdictView,
)
from node_agent.domain.block_ranks import BlockPlace
from service_kit.ports import Clock
from training_topology.identity import LocalRank, NodeId

MESSAGE_LENGTH_MAX = 2_048

_BLOCK_STATES = {
    BlockPlace.FAULTED: RankState.FAULTED,
    BlockPlace.AT_BARRIER: RankState.AT_BARRIER,
    BlockPlace.UNFIT: RankState.AT_BARRIER,
}
_PROCESS_STATES = {
    "T": RankState.STOPPED,
    "t": RankState.STOPPED,
    "D": RankState.BLOCKED,
    "Z": RankState.ENDED,
    "X": RankState.ENDED,
    "": RankState.ENDED,
}


class AgentDescriber:
    """Answers /status and /ranks.

    Attributes:
        bus_connected: set once there is a connection; None: not known yet.
        bad_clients: refused reports on the worker socket so far.
        log_states: by global rank, when log rules are on.
    """

    def __init__(
        self, life: AgentLife, processes: WorkerProcesses, look: ProcessLook, backlog: Backlog, clock: Clock
    ) -> None:
        self._life = life
        self._processes = processes
        self._look = look
        self._backlog = backlog
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self.bus_connected: Callable[[], bool | None] = lambda: None
        self.bad_clients: Callable[[], int] = lambda: 0
        self.log_states: Callable[[], Mapping[int, str]] = dict

    def status(self) -> StatusView:
        """The agent as a whole."""
        life, identity, now = self._life, self._life.identity, self._clock.now()
        row = life.table.row_of(NodeId(identity.node_id))
        seen_at = life.planner_seen_at
        start = life.start
        reason = None if start is None else start.reason
        return StatusView(
            job_id=identity.job_id,
            node_id=identity.node_id,
            instance_id=identity.instance_id,
            host=identity.host,
            pid=identity.pid,
            phase=life.phase,
            topology_version=life.topology_version,
            node_rank=None if row is None else row.node_rank,
            nnodes=life.table.nnodes or life.spec.nnodes,
            nproc_per_node=life.spec.nproc_per_node,
            in_process=life.in_process,
            leaving=life.leaving.is_set(),
            step=None if life.progress is None else life.progress.step,
            resumed_from_step=life.checkpoint_step,
            restart_count=0 if start is None else start.restart_count,
            verdict=None if reason is None else VerdictView(rule_id=reason.rule_id, sentence=reason.sentence),
            last_fault=None if life.first_failure is None else _fault(life.first_failure),
            bus_connected=self.bus_connected(),
            planner_seen_age_s=None if seen_at is None else max(0.0, (now - seen_at).total_seconds()),
            outbox_events=len(self._backlog),
            outbox_dropped=self._backlog.dropped,
            bad_clients=self.bad_clients(),
            uptime_s=self._clock.monotonic_s() - self._began_s,
            now=now,
        )

    def ranks(self) -> tuple[RankView, ...]:
        """Every rank of this node, in the order of local ranks; those that never started too."""
        handles = {handle.local_rank: handle for handle in self._life.handles}
        running = set(self._processes.running())
        log_states = self.log_states()
        return tuple(
            self._rank(LocalRank(local_rank), handles.get(LocalRank(local_rank)), running, log_states)
            for local_rank in range(self._life.spec.nproc_per_node)
        )

    def handle_of(self, rank: int) -> WorkerHandle | None:
        """The newest process of a global rank on this node."""
        return next((handle for handle in self._life.handles if handle.rank == rank), None)

    def known_ranks(self) -> tuple[int, ...]:
        """Global ranks that have a process here."""
        return tuple(handle.rank for handle in self._life.handles)

    def _rank(
        self,
        local_rank: LocalRank,
        handle: WorkerHandle | None,
        running: set[WorkerHandle],
        log_states: Mapping[int, str],
    ) -> RankView:
        life = self._life
        note = life.notes.of(local_rank)
        current = handle is not None and note.step is not None and note.topology_version == life.topology_version
        letter = "" if handle is None or handle not in running else self._look.state_of(handle)
        age_s = None if handle is None else (self._clock.now() - handle.started_at).total_seconds()
        return RankView(
            rank=None if handle is None else handle.rank,
            local_rank=local_rank,
            pid=None if handle is None else handle.pid,
            state=self._state(handle, letter, running),
            process_state=letter,
            topology_version=0 if handle is None else handle.topology_version,
            started_age_s=None if age_s is None else max(0.0, age_s),
            step=note.step if current else None,
            last_step_age_s=max(0.0, self._clock.monotonic_s() - note.step_at_s) if current else None,
            checkpoints=dict(note.checkpoints),
            labels=dict(note.labels),
            log_state=None if handle is None else log_states.get(handle.rank),
        )

    def _state(self, handle: WorkerHandle | None, letter: str, running: set[WorkerHandle]) -> RankState:
        life = self._life
        if handle is None:
            return RankState.NOT_STARTED
        if handle not in running:
            ended = None if life.group is None else life.group.succeeded.get(handle.local_rank)
            if ended is None:
                return RankState.ENDED
            return RankState.COMPLETED if ended else RankState.FAILED
        # What the kernel says beats what the rank said of itself: a stopped one cannot come back from its barrier.
        return _PROCESS_STATES.get(letter) or _BLOCK_STATES.get(
            life.blocks.place_of(handle.local_rank), RankState.RUNNING
        )


def _fault(failure: WorkerExit) -> FaultView:
    error = failure.error
    return FaultView(
        rank=failure.handle.rank,
        topology_version=failure.handle.topology_version,
        status=failure.status,
        error_type="" if error is None else error.type,
        message="" if error is None else error.message[:MESSAGE_LENGTH_MAX],
        at=failure.exited_at,
    )

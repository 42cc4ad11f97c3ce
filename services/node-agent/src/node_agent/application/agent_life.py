"""What one life of the agent knows: who it is, what it was asked to run, and where its worker group stands.

The use cases share it. It is changed on the event loop only, and phases only through the table in
domain/agent_state.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from signal import Signals

from fault_contracts.agent import AgentPhase, JobSpec
from fault_contracts.checkpoints import CheckpointRef
from fault_contracts.commands import StartWorkers
from node_agent.application.group_watch import GroupWatch
from node_agent.application.ports import ProgramKind, RankFiles, TerminalCopy, WorkerExit, WorkerHandle
from node_agent.application.rank_notes import RankNotes
from node_agent.domain.agent_state import TRANSITIONS, AgentEvent, Transition, step
from node_agent.domain.block_ranks import BlockRanks, begun
from node_agent.domain.in_process_state import IN_PROCESS_TRANSITIONS
from node_agent.domain.job_end import ExitCode
from node_agent.domain.progress import Progress
from node_agent.domain.step_pace import StepPace
from node_agent.domain.worker_group import WorkerGroup
from service_kit.ports import Clock
from training_topology.topology import RankTable

_WITHOUT_EXPECTATIONS = (AgentPhase.STOPPING, AgentPhase.COMPLETED, AgentPhase.SHUTDOWN)
"""Phases in which no rank is expected to make progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIdentity:
    """Names of this agent. `instance_id` is new with every start of the process."""

    node_id: str
    instance_id: str
    job_id: str
    address: str
    host: str
    pid: int
    node_rank_wanted: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgram:
    """What each rank runs, and where its output goes.

    Attributes:
        base_env: the environment that all ranks share; the rank's own names come on top.
        files: paths of a rank, from topology_version and local rank.
        terminal: what is copied to the terminal, from the local rank.
        shutdown_signal: what ranks get first when they are stopped; None: SIGTERM, and a notice of a pre-emption that
            nobody can act on is passed on as it came.
    """

    kind: ProgramKind
    program: str
    args: tuple[str, ...]
    cwd: Path
    role: str
    base_env: Mapping[str, str]
    files: Callable[[int, int], RankFiles]
    terminal: Callable[[int], TerminalCopy]
    virtual_local_rank: bool = False
    shutdown_signal: Signals | None = None


@dataclass(slots=True, kw_only=True)
class AgentLife:
    """The changing part.

    Attributes:
        topology_version: the newest version this agent has seen; 0 before the first start.
        table: the newest rank table; version 0 without rows before the first start.
        start: the command that the present group was started by.
        handles: workers of the present group, the ended ones too: what they left behind has to be cleaned up.
        blocks: where each rank stands with its re-executable block.
        block_news: set when `blocks` changed; whoever waits for the barrier clears it.
        in_process: the in-process table holds: every rank of this node has announced its block.
        pace: how fast the ranks of this node step.
        phase_news: set when the phase was changed; whoever waits for a phase clears it.
        planner_heard_s: monotonic seconds of the last sign of a planner, or of the moment when somebody began to wait.
        notes: what each rank last said, for whoever asks.
        planner_seen_at: when the planner last said something to this agent; None: never.
        first_failure: the exit that broke the newest group that broke.
        checkpoint_found: what lay in the watched folder before the job began.
        watches: who is told of the generations of ranks on this node.
        leaving: a signal told the agent to go; whoever waits for something in order to start ranks gives up.
        exit_code: how `phalanx run` will end, once it is known; `ended` tells when.
        farewell: why it ends, for AgentLeft.
    """

    identity: AgentIdentity
    spec: JobSpec
    program: JobProgram
    phase: AgentPhase = AgentPhase.INIT
    topology_version: int = 0
    table: RankTable = field(default_factory=lambda: RankTable(topology_version=0))
    group: WorkerGroup | None = None
    progress: Progress | None = None
    start: StartWorkers | None = None
    handles: list[WorkerHandle] = field(default_factory=list)
    blocks: BlockRanks = field(default_factory=lambda: begun(0, 0))
    block_news: asyncio.Event = field(default_factory=asyncio.Event)
    in_process: bool = False
    pace: StepPace = field(default_factory=StepPace)
    phase_news: asyncio.Event = field(default_factory=asyncio.Event)
    planner_heard_s: float = 0.0
    notes: RankNotes = field(default_factory=RankNotes)
    planner_seen_at: datetime | None = None
    first_failure: WorkerExit | None = None
    checkpoint_found: CheckpointRef | None = None
    watches: list[GroupWatch] = field(default_factory=list)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: ExitCode | int | None = None
    farewell: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def advance(self, event: AgentEvent) -> Transition:
        """Go where the table says.

        Raises:
            TransitionRefused: the table does not have it; nothing was changed.
        """
        table = IN_PROCESS_TRANSITIONS if self.in_process else TRANSITIONS
        transition = step(self.phase, event, table=table)
        self.phase = transition.after
        self.phase_news.set()
        if transition.after in _WITHOUT_EXPECTATIONS and transition.after is not transition.before:
            for watch in self.watches:
                watch.on_stopping()
        return transition

    def hear_planner(self, clock: Clock) -> None:
        """A sign of a planner: a command, or an answer."""
        self.planner_seen_at = clock.now()
        self.planner_heard_s = clock.monotonic_s()

    @property
    def checkpoint_step(self) -> int | None:
        """The step that the present generation was started from."""
        return None if self.start is None or self.start.checkpoint is None else self.start.checkpoint.step

    def note_blocks(self, blocks: BlockRanks) -> None:
        """Take over what is known of the blocks, and wake whoever waits for it."""
        self.blocks = blocks
        self.block_news.set()

    def end(self, exit_code: ExitCode | int, farewell: str) -> None:
        """The life is over; the first reason counts."""
        if self.exit_code is None:
            self.exit_code = exit_code
            self.farewell = farewell
        self.ended.set()

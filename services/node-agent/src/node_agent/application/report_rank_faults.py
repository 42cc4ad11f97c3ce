"""Ranks that live and cannot go on are told to the planner: evidence first, then the report, once per rank.

Whoever finds such ranks (a log rule, the hang detector) calls `report`; it never blocks and needs no await. The phase
changes at once; what takes time, saving the evidence, is done beside the event loop and has a limit, so that a slow
disk costs evidence and not the recovery.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from fault_contracts.agent import AgentPhase
from fault_contracts.rank_faults import RanksFaulted, Suspect
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.outgoing import Outgoing
from node_agent.application.ports import RankFiles, WorkerHandle
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.worker_group import GroupStatus
from service_kit.ports import Clock
from training_topology.identity import Rank

_EXCERPT_MAX = 8_192
_SENTENCE_MAX = 2_048
_NAME_MAX = 256
"""Limits of the contract (fault_contracts.payload)."""
_TAILS_MAX = 16
"""Ranks whose last lines are saved; with more suspects than these, the first ones tell the story."""
_TELLABLE = (AgentPhase.RUNNING, AgentPhase.FAULTED)


class EvidenceStore(Protocol):
    """Keeps evidence on the node."""

    async def save(self, topology_version: int, *, texts: Mapping[str, str], tails: Mapping[str, Path]) -> str:
        """Write a new folder; returns its path, or nothing when it could not be written in time (which it says).

        Args:
            topology_version: the generation that the evidence is of.
            texts: files by name.
            tails: files of which the end is copied, by name of the copy; those that do not exist are left out.
        """


class RankOutputFiles(Protocol):
    """Where the output of a worker goes (WorkerProcesses knows)."""

    def files_of(self, handle: WorkerHandle) -> RankFiles | None:
        """Its files; a process that restarted in place goes on writing into those of its first generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspected:
    """A rank that is to blame, and what was seen of it."""

    rank: Rank
    evidence: str = ""
    place: str = ""
    """Where its stack stands, where that was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFault:
    """What was found.

    Attributes:
        check: what was looked at: process_stopped, process_blocked, hang, log_rule.
        rule_id: which rule decided.
        suspects: empty when nobody can be named.
        reason: one sentence for people.
        silent_s: since the last sign of progress, where that was judged.
        files: evidence beside the last lines, by file name.
    """

    check: str
    rule_id: str
    suspects: tuple[Suspected, ...]
    reason: str
    silent_s: float | None = None
    files: Mapping[str, str] = field(default_factory=dict)


class ReportOutcome(StrEnum):
    """What became of a fault."""

    REPORTED = "reported"
    REPEATED = "repeated"
    """Each suspect (or the nameless fault) was told in this generation already."""
    NOBODY_LIVES = "nobody_lives"
    """The suspects' processes have ended; their ends are told by themselves."""
    NOT_STARTED = "not_started"
    """Ranks of this node are still being started; ask again when they run."""
    NOT_RUNNING = "not_running"
    """No group runs, or it is being stopped already."""


class RankFaultReporter:
    """The one way to RanksFaulted."""

    def __init__(
        self,
        life: AgentLife,
        outgoing: Outgoing,
        outputs: RankOutputFiles,
        evidence: EvidenceStore,
        clock: Clock,
        announcer: Announcer,
    ) -> None:
        self._life = life
        self._outgoing = outgoing
        self._outputs = outputs
        self._evidence = evidence
        self._clock = clock
        self._announcer = announcer
        self._told_version = 0
        self._told: set[Rank | None] = set()
        """Ranks told in that version; None stands for a fault without suspects."""
        self._saving: set[asyncio.Task[None]] = set()

    def report(self, fault: RankFault) -> ReportOutcome:
        """Break the group, save the evidence, then tell. Returns at once."""
        life = self._life
        group = life.group
        if group is None or life.phase not in _TELLABLE:
            return ReportOutcome.NOT_RUNNING
        if len(life.handles) < group.nproc:
            return ReportOutcome.NOT_STARTED
        if self._told_version != group.topology_version:
            self._told_version, self._told = group.topology_version, set()
        handles = {handle.rank: handle for handle in life.handles if handle.local_rank not in group.succeeded}
        living = [suspect for suspect in fault.suspects if suspect.rank in handles]
        if fault.suspects and not living:
            return ReportOutcome.NOBODY_LIVES
        named: list[Rank | None] = [suspect.rank for suspect in living] or [None]
        if self._told.issuperset(named):
            return ReportOutcome.REPEATED
        self._told.update(named)
        if group.status is not GroupStatus.FAILED:
            # The death that broke an earlier group must not be told as the cause of this one's end.
            life.first_failure = None
        life.group = group.after_gang_fault()
        for suspect in living:
            life.group = life.group.after_fault(handles[suspect.rank].local_rank).group
        life.advance(AgentEvent.RANK_FAILED)
        self._announcer.say(_headline(fault, living))
        observed = self._observed(fault, living, handles)
        tails = self._tails(living, handles)
        task = asyncio.get_running_loop().create_task(self._save_and_send(observed, fault.files, tails))
        self._saving.add(task)
        task.add_done_callback(self._saved)
        return ReportOutcome.REPORTED

    async def drain(self) -> None:
        """Wait until everything found so far is on its way."""
        while self._saving:
            await asyncio.wait(set(self._saving))

    def _observed(
        self, fault: RankFault, living: list[Suspected], handles: Mapping[Rank, WorkerHandle]
    ) -> RanksFaulted:
        life = self._life
        now = self._clock.now()
        suspects = tuple(
            Suspect(
                rank=handle.rank,
                local_rank=handle.local_rank,
                pid=handle.pid,
                evidence=suspect.evidence[:_EXCERPT_MAX],
                place=suspect.place,
            )
            for suspect in living
            for handle in (handles[suspect.rank],)
        )
        began_at = min((handle.started_at for handle in life.handles), default=now)
        return RanksFaulted(
            node_id=life.identity.node_id,
            instance_id=life.identity.instance_id,
            job_id=life.identity.job_id,
            topology_version=self._told_version,
            check=fault.check[:_NAME_MAX],
            rule_id=fault.rule_id[:_NAME_MAX],
            suspects=suspects,
            reason=fault.reason[:_SENTENCE_MAX],
            step=None if life.progress is None else life.progress.step,
            checkpoint_step=life.checkpoint_step,
            silent_s=fault.silent_s,
            ran_s=max(0.0, (now - began_at).total_seconds()),
            observed_at=now,
        )

    def _tails(self, living: list[Suspected], handles: Mapping[Rank, WorkerHandle]) -> dict[str, Path]:
        """Last words of the suspects; of everybody when nobody is named."""
        tails = {}
        for rank in [suspect.rank for suspect in living][:_TAILS_MAX] or list(handles)[:_TAILS_MAX]:
            files = self._outputs.files_of(handles[rank])
            if files is not None:
                tails[f"rank_{rank}_stdout.log"] = files.stdout
                tails[f"rank_{rank}_stderr.log"] = files.stderr
        return tails

    async def _save_and_send(self, observed: RanksFaulted, files: Mapping[str, str], tails: Mapping[str, Path]) -> None:
        summary = json.dumps(observed.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
        texts = {"fault.json": summary, **files}
        path = await self._evidence.save(observed.topology_version, texts=texts, tails=tails)
        group = self._life.group
        if group is None or group.topology_version != observed.topology_version:
            self._announcer.say(f"{observed.rule_id} is not reported any more: its ranks are stopped already")
            return
        self._outgoing.send(observed.model_copy(update={"evidence_path": path}), urgent=True)
        if path:
            self._announcer.say(f"evidence of {observed.rule_id}: {path}")

    def _saved(self, task: asyncio.Task[None]) -> None:
        self._saving.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # A fault that is not told would be waited for: let the loop's handler show it with its traceback.
            task.get_loop().call_exception_handler(
                {"message": "a rank's fault could not be reported", "exception": task.exception(), "task": task}
            )


def _headline(fault: RankFault, living: list[Suspected]) -> str:
    if not living:
        return f"the ranks of this node cannot go on ({fault.rule_id}): {fault.reason[:300]}"
    ranks = ", ".join(str(suspect.rank) for suspect in living[:8]) + (", ..." if len(living) > 8 else "")
    noun = "rank" if len(living) == 1 else "ranks"
    return f"{noun} {ranks} cannot go on ({fault.rule_id}): {fault.reason[:300]}"

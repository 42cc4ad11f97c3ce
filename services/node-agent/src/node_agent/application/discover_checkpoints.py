"""The one door for checkpoints: whoever says that one is saved, it is checked, remembered and told to the planner here.

Worker-link, log rules and the watched folder all call `confirm`. A confirmation that fails its check is said and is a
signal, and the planner never hears of the step.
"""

from __future__ import annotations

import asyncio

from fault_contracts.agent import CheckpointReported
from fault_contracts.health import Component, SignalObserved
from fault_contracts.payload import Health
from node_agent.application.agent_life import AgentLife
from node_agent.application.checkpoint_file_ports import CheckpointFiles
from node_agent.application.control_ports import Announcer
from node_agent.application.outgoing import Outgoing
from node_agent.domain.checkpoint_check import CheckLevel, Outcome, PathFacts, Verdict, judge
from node_agent.domain.checkpoint_history import (
    Claim,
    LocalHistory,
    LocalStep,
    claim_problem,
    confirmed,
    is_known,
    newest_counting,
)
from service_kit.ports import Clock
from training_topology.identity import LocalRank, NodeId

CHECK = "checkpoint_check"
PATIENCE_S = 10.0
"""How long a checkpoint may be missing, empty or growing before its confirmation is refused: a log line is often
written before the file is closed, and an NFS client may hold a folder's old listing for some seconds."""
PAUSE_S = 0.2
PAUSE_S_MAX = 2.0
PENDING_MAX = 1_024
"""Checks under way: 64 ranks with two kinds and eight steps. More come only when the file system does not answer."""
TOLD_MAX = 20
"""Lines on the terminal about refused checkpoints; the signals go on."""


class CheckpointDiscovery:
    """Confirmations in, CheckpointReported out. Everything but the look at the files happens on the event loop."""

    def __init__(
        self,
        life: AgentLife,
        outgoing: Outgoing,
        clock: Clock,
        announcer: Announcer,
        files: CheckpointFiles,
        *,
        level: CheckLevel,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._life = life
        self._outgoing = outgoing
        self._clock = clock
        self._announcer = announcer
        self._files = files
        self._level = level
        self._patience_s = patience_s
        self._pending: dict[Claim, asyncio.Task[None]] = {}
        self._told = 0
        self._failing: set[int] = set()
        self.history = LocalHistory()

    def confirm(
        self,
        rank: int,
        *,
        step: int,
        path: str,
        source: str,
        kind: str = "model",
        writers: int | None = None,
        topology_version: int = 0,
        is_checked: bool = False,
    ) -> None:
        """A rank's part of a checkpoint is saved, says `source`. Never blocks and never raises.

        Args:
            rank: global rank.
            step: as the script counts.
            path: empty: not told, and then it cannot be checked.
            source: worker_link, the name of a log rule, or the watched folder.
            kind: `model` and `data` are parts of one checkpoint; others are whole.
            writers: how many ranks write a part; None: learned.
            topology_version: the generation that saved it; 0: the present one.
            is_checked: whoever calls has looked at the files.
        """
        version = topology_version or self._version
        claim = Claim(
            rank=rank, step=step, path=path, kind=kind, writers=writers, topology_version=version, source=source
        )
        group = self._life.group
        running = () if group is None else range(group.first_rank, group.first_rank + group.nproc)
        local_ranks = (*self.local_ranks, *running, *(int(handle.rank) for handle in self._life.handles))
        problem = claim_problem(claim, local_ranks=local_ranks, kinds=tuple(self.history.kinds))
        if version < 1:
            problem = "no generation of this job has begun"
        if problem:
            self._tell(f"a checkpoint that {source[:80]} told was refused: {problem[:300]}")
        elif is_known(self.history, claim) or claim in self._pending:
            pass  # said before, perhaps by another source
        elif is_checked or self._level is CheckLevel.NONE or not path or self._files.is_elsewhere(path):
            self._accept(claim)
        elif len(self._pending) >= PENDING_MAX:
            self._refuse(
                claim,
                Verdict(
                    outcome=Outcome.BAD,
                    rule_id="checkpoint.busy",
                    sentence=f"{PENDING_MAX} other checks wait for the file system",
                ),
            )
        else:
            task = asyncio.get_running_loop().create_task(self._check(claim))
            self._pending[claim] = task

    async def verify(
        self, path: str, level: CheckLevel, *, pid: int | None = None, is_settled: bool = False
    ) -> Verdict:
        """Look at a checkpoint until it is right or patience runs out.

        Args:
            path: where it is.
            level: how closely to look.
            pid: the process that a relative path is meant from.
            is_settled: nobody writes it any more, so one look is enough.
        """
        deadline_s = self._clock.monotonic_s() + self._patience_s
        pause_s = PAUSE_S
        before: PathFacts | None = None
        while True:
            facts = await self._files.look(path, level, pid=pid)
            verdict = judge(path, level, facts, facts if is_settled else before)
            left_s = deadline_s - self._clock.monotonic_s()
            if verdict.outcome is not Outcome.NOT_YET or is_settled or left_s <= 0:
                return verdict
            before = facts
            await self._clock.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def drain(self, limit_s: float) -> None:
        """Let the checks under way end, for a while: the last checkpoint before a stop is the one that counts."""
        if self._pending:
            await asyncio.wait(set(self._pending.values()), timeout=limit_s)
        for task in self._pending.values():
            task.cancel()

    @property
    def local_ranks(self) -> range:
        """Global ranks of this node."""
        return self._life.table.ranks_of(NodeId(self._life.identity.node_id))

    def newest(self, kind: str = "model") -> LocalStep | None:
        """The newest step of a kind that every required rank of this node confirmed."""
        spec, table = self._life.spec, self._life.table
        # Before the first start the gang has the size that was asked for; an elastic one may have another later.
        world_size = table.world_size if table.rows else spec.nnodes * spec.nproc_per_node
        return newest_counting(self.history, kind, local_ranks=self.local_ranks, world_size=world_size)

    @property
    def _version(self) -> int:
        group = self._life.group
        return self._life.topology_version if group is None else group.topology_version

    async def _check(self, claim: Claim) -> None:
        try:
            verdict = await self.verify(claim.path, self._level, pid=self._pid_of(claim.rank))
            if verdict.outcome in (Outcome.OK, Outcome.UNKNOWN):
                self._accept(claim)
            else:
                self._refuse(claim, verdict)
        finally:
            self._pending.pop(claim, None)

    def _accept(self, claim: Claim) -> None:
        self.history = confirmed(self.history, claim)
        life, group = self._life, self._life.group
        if group is not None and 0 <= claim.rank - group.first_rank < group.nproc:
            life.notes.checkpoint(LocalRank(claim.rank - group.first_rank), claim.kind, claim.step)
        self._outgoing.send(
            CheckpointReported(
                node_id=life.identity.node_id,
                job_id=life.identity.job_id,
                topology_version=claim.topology_version,
                rank=claim.rank,
                step=claim.step,
                path=claim.path,
                kind=claim.kind,
                writers=claim.writers,
                saved_at=self._clock.now(),
            )
        )
        if claim.rank in self._failing:
            self._failing.discard(claim.rank)
            self._signal(claim, Health.OK, f"step {claim.step} passed its check")

    def _refuse(self, claim: Claim, verdict: Verdict) -> None:
        what = f"the checkpoint of step {claim.step} of rank {claim.rank} ({claim.source[:80]}) does not count"
        self._tell(f"{what}: {verdict.sentence[:400]}; --checkpoint-check chooses how closely to look")
        self._failing.add(claim.rank)
        self._signal(claim, Health.BAD, f"{verdict.rule_id}: step {claim.step}: {verdict.sentence}")

    def _signal(self, claim: Claim, health: Health, detail: str) -> None:
        life = self._life
        self._outgoing.send(
            SignalObserved(
                node_id=life.identity.node_id,
                component=Component.PROCESS,
                component_id=f"{life.identity.job_id}/{claim.rank}"[-256:],
                check=CHECK,
                health=health,
                detail=detail[:8_000],
                values={"step": float(claim.step)},
                job_id=life.identity.job_id,
                rank=claim.rank,
                source="node-agent",
                observed_at=self._clock.now(),
            )
        )

    def _tell(self, line: str) -> None:
        self._told += 1
        if self._told <= TOLD_MAX:
            self._announcer.say(line)
        if self._told == TOLD_MAX:
            self._announcer.say("more refused checkpoints are signals only")

    def _pid_of(self, rank: int) -> int | None:
        return next((handle.pid for handle in self._life.handles if handle.rank == rank), None)

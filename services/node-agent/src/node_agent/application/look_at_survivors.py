"""When a rank ends with an error, where do the others stand? Their stacks tell who it was that did not come.

A collective that times out ends the ranks that waited; the one they waited for lives, says nothing, and is about to be
stopped. Its stack is asked for at once, beside the stop and not before it: a dump takes milliseconds, the order to stop
takes longer to come, and where it does not, the stack is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from node_agent.application.agent_life import AgentLife
from node_agent.application.ports import WorkerExit
from node_agent.application.progress_ports import StackTaker
from node_agent.application.read_findings import FindingReader
from node_agent.domain.finding_fold import Found
from node_agent.domain.stack_dump import parse_last_dump
from node_agent.domain.stack_groups import RankStack, StackPlace, stack_of
from node_agent.domain.worker_group import WorkerGroup
from training_topology.identity import Rank

DUMP_WAIT_S = 0.2
RANKS_MAX = 64
"""Ranks of one node that are asked; there are eight as a rule."""
KINDS = {
    StackPlace.DATA_LOADER: "stack_in_data",
    StackPlace.CHECKPOINT: "stack_in_checkpoint",
    StackPlace.EVALUATION: "stack_in_evaluation",
    StackPlace.COLLECTIVE: "stack_in_collective",
}
"""The words that stacks in logs are read into (fault_attribution's signatures)."""
SIGNATURE = "agent.stack"


class SurvivorLook:
    """application.group_watch.GroupWatch."""

    def __init__(self, life: AgentLife, stacks: StackTaker, findings: FindingReader) -> None:
        self._life = life
        self._stacks = stacks
        self._findings = findings
        self._looked_at_version = 0
        self._looking: set[asyncio.Task[None]] = set()

    def on_begun(self, group: WorkerGroup, continuing: Collection[Rank]) -> None:
        """See the port."""

    def on_started(self) -> None:
        """See the port."""

    def on_stopping(self) -> None:
        """See the port."""

    def on_exit(self, ended: WorkerExit) -> None:
        """See the port. One look a generation; a rank that was killed waited for nobody."""
        version = ended.handle.topology_version
        if ended.requested or not ended.exit_code or version == self._looked_at_version:
            return
        self._looked_at_version = version
        task = asyncio.get_running_loop().create_task(self._look(version, ended.handle.rank))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(self, version: int, dead: Rank) -> None:
        handles = [each for each in self._life.handles if each.topology_version == version and each.rank != dead]
        texts = await self._stacks.take(handles[:RANKS_MAX], wait_s=DUMP_WAIT_S)
        found = {rank: stack for rank, text in texts.items() if (stack := stack_of(parse_last_dump(text))) is not None}
        self._findings.tell_stacks(version, {rank: _found(rank, stack) for rank, stack in sorted(found.items())})


def _found(rank: Rank, stack: RankStack) -> Found:
    kind = KINDS.get(stack.place, "stack_in_other")
    text = f"rank {rank} stands in {stack.place} ({stack.operation}) at {stack.where}"
    return Found(
        kind=kind,
        role="context",
        signature_id=SIGNATURE,
        text=text,
        captures={"place": stack.place.value, "where": stack.where},
    )

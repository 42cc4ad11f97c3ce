"""Evidence of all ranks of the node: states, usage and stacks, twice, so that it shows what moves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from node_agent.application.ports import WorkerHandle
from node_agent.application.progress_ports import LastLines, ProcessReader, StackTaker
from node_agent.application.watch_states import StateBoard
from node_agent.domain.hang_verdict import HangVerdict
from node_agent.domain.open_collectives import open_collectives
from node_agent.domain.rank_evidence import RankEvidence
from node_agent.domain.rank_looks import RankLook, evidence_of
from node_agent.domain.stack_dump import parse_last_dump
from node_agent.domain.stack_groups import stack_of
from service_kit.ports import Clock
from training_topology.identity import Rank

DUMP_WAIT_S = 0.2
"""A process writes its dump within milliseconds, whatever its threads do; one that cannot run does not."""


class LookTaker:
    """Takes looks and remembers the last ones."""

    def __init__(
        self, *, reader: ProcessReader, stacks: StackTaker, board: StateBoard, lines: LastLines, clock: Clock
    ) -> None:
        self._reader = reader
        self._stacks = stacks
        self._board = board
        self._lines = lines
        self._clock = clock
        self._looks: dict[Rank, RankLook] = {}
        self._texts: dict[Rank, tuple[str, ...]] = {}
        self._evidence: Mapping[Rank, RankEvidence] = {}

    def forget(self) -> None:
        """The gang moved on: an old look says nothing about the next standstill."""
        self._looks.clear()
        self._texts.clear()
        self._evidence = {}

    async def take(self, handles: Sequence[WorkerHandle]) -> Mapping[Rank, RankEvidence]:
        """Look at each rank; from the second time on the evidence shows what moved since the last."""
        able = [handle for handle in handles if not self._board.cannot_run(handle.rank)]
        texts = await self._stacks.take(able, wait_s=DUMP_WAIT_S)
        now_s = self._clock.monotonic_s()
        self._board.look(handles, now_s=now_s)
        found: dict[Rank, RankEvidence] = {}
        for handle in handles:
            rank = handle.rank
            state, age_s = self._board.state_of(rank, now_s=now_s)
            text = texts.get(rank)
            look = RankLook(
                at_s=now_s,
                state=state,
                state_age_s=age_s,
                usage=self._reader.usage(handle),
                stack=None if text is None else stack_of(parse_last_dump(text)),
            )
            found[rank] = evidence_of(self._looks.get(rank), look)
            self._looks[rank] = look
            if text is not None:
                self._texts[rank] = (*self._texts.get(rank, ())[-1:], text)
        self._evidence = found
        return found

    def files(self, verdict: HangVerdict) -> dict[str, str]:
        """What is kept for people, by file name: the verdict, processes, the last two dumps, open collectives."""
        groups = [str(group) for group in verdict.groups]
        files = {"verdict.txt": "\n".join([f"{verdict.rule_id}: {verdict.sentence}", *groups]) + "\n"}
        rows = [_row(rank, seen) for rank, seen in sorted(self._evidence.items())]
        files["processes.json"] = json.dumps(rows, indent=2) + "\n"
        for rank, texts in sorted(self._texts.items()):
            files[f"stacks_rank_{rank}.txt"] = "\n-- the next dump --\n".join(texts)
        lines = [
            f"rank {rank}: {line}"
            for rank in sorted(self._evidence)
            for line in open_collectives(self._lines.stderr_tail(rank))
        ]
        if lines:
            files["open_collectives.txt"] = "\n".join(lines) + "\n"
        return files

    def describe(self, rank: Rank) -> str:
        """What was seen of one rank, in a sentence."""
        seen = self._evidence.get(rank)
        if seen is None:
            return "nothing was seen of it"
        place = "no stack dump came" if seen.stack is None else f"{seen.stack.place} at {seen.stack.where}"
        share = "unknown" if seen.cpu_share is None else f"{seen.cpu_share:.0%}"
        return f"{seen.whereabouts}: {place}; process state {seen.state} for {seen.state_age_s:.1f} s, CPU {share}"

    def place(self, rank: Rank) -> str:
        """Where the stack of a rank stands; empty when no dump came."""
        seen = self._evidence.get(rank)
        return "" if seen is None or seen.stack is None else seen.stack.place.value


def _row(rank: Rank, seen: RankEvidence) -> dict[str, object]:
    stack = seen.stack
    return {
        "rank": rank,
        "whereabouts": seen.whereabouts,
        "state": seen.state,
        "state_age_s": round(seen.state_age_s, 2),
        "cpu_share": seen.cpu_share,
        "io_bytes": seen.io_bytes,
        "moved": seen.moved,
        "place": None if stack is None else stack.place,
        "operation": None if stack is None else stack.operation,
        "where": None if stack is None else stack.where,
    }

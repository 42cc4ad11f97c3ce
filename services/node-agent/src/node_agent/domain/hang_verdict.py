"""The words of a hang decision: what it looks at, how patient it is, and what it says. The rules are in hang_rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from node_agent.domain.progress_watch import ProgressView
from node_agent.domain.rank_evidence import RankEvidence, Whereabouts
from node_agent.domain.stack_groups import StackGroup
from node_agent.domain.step_times import TrainingPhase
from training_topology.identity import Rank

NAMED_RANKS_MAX = 8
"""Ranks spelled out in a sentence; all of them are in the verdict."""


class HangKind(StrEnum):
    """What is the matter."""

    ON_TIME = "on_time"
    LONG_PHASE = "long_phase"
    """Late, but healthy as far as can be seen."""
    UNCLEAR = "unclear"
    """Late, and not enough is known, or it is too early to say so."""
    WAITS_ELSEWHERE = "waits_elsewhere"
    """All ranks seen here wait for ranks that are not seen: the culprit is on another node."""
    STOPPED = "stopped"
    """A process was stopped by a signal, or its main thread has ended."""
    HUNG = "hung"


@dataclass(frozen=True, slots=True, kw_only=True)
class HangPolicy:
    """How patient the rules are.

    Attributes:
        stopped_s: a stop this short is a tool that looks at the process.
        idle_s: an idle rank for which the others wait. Longer than the usual upload of a log or write of a small
            checkpoint by one rank, which looks the same; a stopped process does not wait for it.
        blocked_s: uninterruptible sleep without I/O; a busy disk holds a process for seconds.
        alone_s: a rank that works while the others wait for it. torch's default time-out of NCCL is 10 minutes
            (torch.distributed.init_process_group): past it the waiting ranks end by themselves.
        collective_s: the whole gang in one collective.
        second_look_s: between the first dump and the one that shows whether anything moves.
        look_again_s_max: evidence is taken again when the age has grown by half, and after this time at the latest.
    """

    stopped_s: float = 0.25
    idle_s: float = 15.0
    blocked_s: float = 10.0
    alone_s: float = 600.0
    collective_s: float = 60.0
    second_look_s: float = 0.2
    look_again_s_max: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HangVerdict:
    """The decision.

    Attributes:
        suspects: ranks to blame; empty when nobody can be named.
        rule_id: which rule decided.
        recognised: a long phase that nobody declared: the watch is to be told.
        look_again_s: evidence should be taken again after so long; None when there is no need.
        groups: ranks by place, largest first: evidence for people.
    """

    kind: HangKind
    rule_id: str
    sentence: str
    suspects: tuple[Rank, ...] = ()
    recognised: TrainingPhase | None = None
    look_again_s: float | None = None
    groups: tuple[StackGroup, ...] = ()

    @property
    def is_hang(self) -> bool:
        """Whether to act on it."""
        return self.kind in (HangKind.STOPPED, HangKind.HUNG)


@dataclass(frozen=True, slots=True, kw_only=True)
class HangCase:
    """Everything the rules look at.

    Attributes:
        ranks: those that were seen, of one node or of the whole gang.
        world_size: of the gang.
        groups: of the stacks that are known.
    """

    progress: ProgressView
    ranks: Mapping[Rank, RankEvidence]
    world_size: int
    policy: HangPolicy
    groups: tuple[StackGroup, ...]

    @property
    def is_whole_gang(self) -> bool:
        """Whether there is no rank that is not seen."""
        return len(self.ranks) >= self.world_size

    def those(self, whereabouts: Whereabouts) -> tuple[Rank, ...]:
        """Ranks that are there, in order."""
        return tuple(sorted(rank for rank, seen in self.ranks.items() if seen.whereabouts is whereabouts))

    def verdict(
        self,
        kind: HangKind,
        rule_id: str,
        sentence: str,
        *,
        suspects: tuple[Rank, ...] = (),
        recognised: TrainingPhase | None = None,
        due_s: float | None = None,
    ) -> HangVerdict:
        """Say it. `due_s`: the age at which the same evidence would mean more."""
        is_waiting = kind in (HangKind.LONG_PHASE, HangKind.UNCLEAR, HangKind.WAITS_ELSEWHERE)
        return HangVerdict(
            kind=kind,
            rule_id=rule_id,
            sentence=f"{sentence}; {self.progress.sentence}",
            suspects=suspects,
            recognised=recognised,
            look_again_s=self._look_again_s(due_s) if is_waiting else None,
            groups=self.groups,
        )

    def _look_again_s(self, due_s: float | None) -> float:
        policy = self.policy
        if any(seen.stack is not None and seen.moved is None for seen in self.ranks.values()):
            return policy.second_look_s
        wait_s = min(self.progress.age_s / 2, policy.look_again_s_max)
        if due_s is not None:
            wait_s = min(wait_s, due_s - self.progress.age_s)
        return max(wait_s, policy.second_look_s)


def name_ranks(ranks: tuple[Rank, ...]) -> str:
    """`rank 3`, `ranks 1, 2`, and so on."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    more = ", ..." if len(ranks) > NAMED_RANKS_MAX else ""
    return f"ranks {', '.join(str(rank) for rank in ranks[:NAMED_RANKS_MAX])}{more}"

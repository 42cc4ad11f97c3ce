"""Which checkpoint a new generation starts from: the largest step that every required rank confirmed.

Two ways to be wrong are closed here. A rank that died while writing never confirmed, so its step is not complete. And
a step that a later generation may have begun to write anew is not what was confirmed: a confirmation counts only while
no generation started behind it (`GenerationStart`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fault_contracts.agent import CheckpointReported
from recovery_planner.domain.gang import GenerationStart
from recovery_planner.domain.rank_set import RankSet, add, count, covers

STEPS_MAX = 32
"""Steps kept per kind. A job falls back by one or two; 32 leaves room for slow ranks and keeps the record small."""
KINDS_MAX = 8
"""Kinds of checkpoints per job (model, sharded, in-memory, ...)."""
STARTS_MAX = 32
"""Generations whose start is remembered one by one; older ones are merged to the safe side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """One step of one generation and the ranks that confirmed it; `path` is the one of `path_rank`, the lowest rank."""

    step: int
    topology_version: int
    ranks: RankSet
    path: str
    path_rank: int
    writers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindHistory:
    """Confirmations of one kind in rising order of (step, topology_version), and every rank that ever confirmed one."""

    confirmations: tuple[Confirmation, ...] = ()
    ranks_ever: RankSet = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHistory:
    """All kinds of one job. Kinds are alternatives: any one of them is enough to resume."""

    kinds: dict[str, KindHistory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenCheckpoint:
    """The choice (None: start without one) and why, in a sentence."""

    step: int | None
    path: str
    sentence: str


def record(history: CheckpointHistory, report: CheckpointReported) -> CheckpointHistory:
    """The history with one more confirmation. A repeat changes nothing; a kind too many is not kept."""
    kind = history.kinds.get(report.kind)
    if kind is None:
        if len(history.kinds) >= KINDS_MAX:
            return history
        kind = KindHistory()
    found = {(c.step, c.topology_version): c for c in kind.confirmations}
    key = (report.step, report.topology_version)
    old = found.get(key)
    if old is None:
        new = Confirmation(
            step=report.step,
            topology_version=report.topology_version,
            ranks=((report.rank, report.rank),),
            path=report.path,
            path_rank=report.rank,
            writers=report.writers,
        )
    else:
        new = replace(
            old, ranks=add(old.ranks, report.rank), writers=max(old.writers or 0, report.writers or 0) or None
        )
        if report.rank < old.path_rank:
            new = replace(new, path=report.path, path_rank=report.rank)
    ranks_ever = add(kind.ranks_ever, report.rank)
    if new == old and ranks_ever == kind.ranks_ever:
        return history
    found[key] = new
    kept = tuple(found[key] for key in sorted(found))[-STEPS_MAX:]
    return CheckpointHistory(
        kinds={**history.kinds, report.kind: KindHistory(confirmations=kept, ranks_ever=ranks_ever)}
    )


def is_complete(confirmation: Confirmation, ranks_ever: RankSet) -> bool:
    """Every required rank confirmed: as many as the writers said, or else whoever ever confirmed one."""
    if confirmation.writers is not None:
        return count(confirmation.ranks) >= confirmation.writers
    return covers(confirmation.ranks, ranks_ever)


def is_overwritten(confirmation: Confirmation, starts: tuple[GenerationStart, ...]) -> bool:
    """A later generation started behind this step, so it may have begun to write it again."""
    return any(
        start.topology_version > confirmation.topology_version and start.step < confirmation.step for start in starts
    )


def choose(history: CheckpointHistory, starts: tuple[GenerationStart, ...]) -> ChosenCheckpoint:
    """The largest complete step over all kinds; the kind `model` wins a tie."""
    best: tuple[int, bool, Confirmation] | None = None
    incomplete = 0
    for name, kind in sorted(history.kinds.items()):
        for confirmation in kind.confirmations:
            if is_overwritten(confirmation, starts):
                continue
            if not is_complete(confirmation, kind.ranks_ever):
                incomplete = max(incomplete, confirmation.step)
                continue
            rank = (confirmation.step, name == "model", confirmation)
            if best is None or rank[:2] > best[:2]:
                best = rank
    if best is None:
        return ChosenCheckpoint(step=None, path="", sentence="no step is confirmed by every required rank")
    chosen = best[2]
    sentence = f"step {chosen.step} is the largest that all {count(chosen.ranks)} required ranks confirmed"
    if incomplete > chosen.step:
        sentence += f"; step {incomplete} was begun but not confirmed by all"
    return ChosenCheckpoint(step=chosen.step, path=chosen.path, sentence=sentence)


def note_start(starts: tuple[GenerationStart, ...], start: GenerationStart) -> tuple[GenerationStart, ...]:
    """Remember what a generation was started from.

    An earlier start at or after this step says nothing more and is dropped, so steps rise. When too many are left the
    two oldest become one that forbids at least as much as both did.
    """
    kept = [*(old for old in starts if old.step < start.step), start]
    while len(kept) > STARTS_MAX:
        oldest, second = kept[0], kept[1]
        kept[:2] = [GenerationStart(topology_version=second.topology_version, step=oldest.step)]
    return tuple(kept)

"""Which checkpoint a new generation starts from: the largest step that every required rank confirmed, in all parts.

Two ways to be wrong are closed here. A rank that died while writing never confirmed, so its step is not complete. And
a step that a later generation may have begun to write anew is not what was confirmed: a confirmation counts only while
no generation started behind it (`GenerationStart`).
"""

from __future__ import annotations

from dataclasses import dataclass

from fault_contracts.checkpoints import CheckpointRef
from recovery_planner.domain.checkpoint_history import DATA, CheckpointHistory, Confirmation, Whole, whole_checkpoints
from recovery_planner.domain.checkpoint_paths import as_rank_paths, in_folder_only
from recovery_planner.domain.gang import GenerationStart
from recovery_planner.domain.rank_set import count

STARTS_MAX = 32
"""Generations whose start is remembered one by one; older ones are merged to the safe side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenCheckpoint:
    """The choice (`ref` None: start without one) and why, in a sentence; and the step that was given up for it."""

    ref: CheckpointRef | None
    sentence: str
    stepped_over: int | None = None

    @property
    def step(self) -> int | None:
        """Of the checkpoint; None without one."""
        return None if self.ref is None else self.ref.step

    @property
    def path(self) -> str:
        """Of the lowest rank that told one; empty without."""
        return "" if self.ref is None else self.ref.path


def is_overwritten(confirmation: Confirmation, starts: tuple[GenerationStart, ...]) -> bool:
    """A later generation started behind this step, so it may have begun to write it again."""
    return any(
        start.topology_version > confirmation.topology_version and start.step < confirmation.step for start in starts
    )


def choose(
    history: CheckpointHistory,
    starts: tuple[GenerationStart, ...],
    *,
    found: CheckpointRef | None = None,
    below: int | None = None,
) -> ChosenCheckpoint:
    """The largest complete step over all kinds; the kind `model` wins a tie.

    Args:
        history: what ranks confirmed.
        starts: of the generations so far.
        found: lay in the watched folder before the job began: taken only when no rank's word is there to go by.
        below: only steps before this one; None: all.
    """
    if below is not None and found is not None and found.step >= below:
        found = None
    valid = [
        whole
        for whole in whole_checkpoints(history)
        if not is_overwritten(whole.confirmation, starts) and (below is None or whole.confirmation.step < below)
    ]
    if not valid:
        return _without(history, found)
    best = max(valid, key=lambda whole: (whole.confirmation.step, whole.kind == "model"))
    return ChosenCheckpoint(ref=_as_ref(best), sentence=_why(best, _begun(history, starts), below))


def _without(history: CheckpointHistory, found: CheckpointRef | None) -> ChosenCheckpoint:
    sentence = "no step is confirmed by every required rank"
    if DATA in history.kinds:
        sentence += ", in model and data"
    if found is not None:
        sentence += f"; step {found.step} lay in the watched folder before the job began"
    return ChosenCheckpoint(ref=found, sentence=sentence)


def _why(best: Whole, begun: int, below: int | None) -> str:
    chosen = best.confirmation
    before = "" if below is None else f" before step {below}"
    sentence = f"step {chosen.step} is the largest{before} that all {count(chosen.ranks)} required ranks confirmed"
    if best.data is not None:
        sentence += f", and the {count(best.data.ranks)} of its data"
    if begun > chosen.step and below is None:
        sentence += f"; step {begun} was begun but not confirmed by all"
    if unknown := in_folder_only(chosen.paths):
        sentence += f"; their paths follow too many rules: {unknown} ranks are told a common folder only"
    return sentence


def _begun(history: CheckpointHistory, starts: tuple[GenerationStart, ...]) -> int:
    """The largest step that anybody confirmed."""
    return max(
        (c.step for kind in history.kinds.values() for c in kind.confirmations if not is_overwritten(c, starts)),
        default=0,
    )


def _as_ref(whole: Whole) -> CheckpointRef:
    chosen, data = whole.confirmation, whole.data
    return CheckpointRef(
        step=chosen.step,
        path=chosen.path,
        paths=as_rank_paths(chosen.paths),
        data_path="" if data is None else data.path,
        data_paths=() if data is None else as_rank_paths(data.paths),
    )


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

"""Which rank confirmed which checkpoint: what is kept, what goes when there is too much, and what is refused.

A job can say anything, so three things hold whatever it says: the record stays below its size, what cannot be right is
refused with a reason, and a whole checkpoint is never pushed out by confirmations that make none.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fault_contracts.agent import CheckpointReported
from fault_contracts.payload import Reason
from recovery_planner.domain.checkpoint_paths import PathGroup, note_path, size_of
from recovery_planner.domain.rank_set import RankSet, add, count, covers
from recovery_planner.domain.required_ranks import least_writers, note_writer, required_of

MODEL = "model"
DATA = "data"
"""State of the data loader: a part of the checkpoint that `model` is the other part of. Every other kind is whole."""

STEPS_MAX = 32
"""Steps kept per kind. A job falls back by one or two; 32 leaves room for slow ranks and keeps the record small."""
WHOLE_KEPT = 4
"""Newest whole checkpoints that stay whatever else comes."""
KINDS_MAX = 8
"""Kinds of checkpoints per job (model, sharded, in-memory, ...)."""
HISTORY_BYTES_MAX = 600_000
"""Estimate of the record. The bus carries 1 MB a message (nats-server's max_payload default)."""
STEP_MAX = 2**53
"""Larger whole numbers are not exact in every JSON reader; no training counts so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """One step of one generation and the ranks that confirmed it.

    Attributes:
        path: the one of `path_rank`, the lowest rank that told one.
        paths: of all ranks, as rules.
        world_size: of its generation; None: not known.
    """

    step: int
    topology_version: int
    ranks: RankSet
    path: str
    path_rank: int
    writers: int | None = None
    paths: tuple[PathGroup, ...] = ()
    world_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindHistory:
    """Confirmations of one kind in rising order of (step, topology_version), and every rank that ever confirmed one.

    Attributes:
        ranks_by_world: the same, by the world size of their generation.
    """

    confirmations: tuple[Confirmation, ...] = ()
    ranks_ever: RankSet = ()
    ranks_by_world: dict[int, RankSet] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHistory:
    """All kinds of one job. `model` and `data` are parts of one checkpoint, every other kind is one by itself."""

    kinds: dict[str, KindHistory] = field(default_factory=dict)


def refusal(history: CheckpointHistory, report: CheckpointReported, *, world_size: int | None) -> Reason | None:
    """Why a report cannot be right, or None. `world_size` is its generation's; None: that is not known here."""
    said = f"rank {report.rank} on {report.node_id} reported a checkpoint of kind {report.kind!r} at step {report.step}"
    if world_size is not None and report.rank >= world_size:
        return Reason(rule_id="checkpoint.unknown_rank", sentence=f"{said}, but the job has {world_size} ranks")
    if world_size is not None and report.writers is not None and report.writers > world_size:
        return Reason(
            rule_id="checkpoint.too_many_writers",
            sentence=f"{said} by {report.writers} writers, but the job has {world_size} ranks: it could never be whole",
        )
    if report.step > STEP_MAX:
        return Reason(rule_id="checkpoint.absurd_step", sentence=f"{said[:600]}: more than 2^53 steps")
    if report.kind not in history.kinds and len(history.kinds) >= KINDS_MAX:
        return Reason(
            rule_id="checkpoint.too_many_kinds", sentence=f"{said}, but {KINDS_MAX} kinds are known, which is the limit"
        )
    return None


def record(
    history: CheckpointHistory, report: CheckpointReported, *, world_size: int | None = None
) -> CheckpointHistory:
    """The history with one more confirmation. A repeat changes nothing; a kind too many is not kept."""
    kind = history.kinds.get(report.kind)
    if kind is None:
        if len(history.kinds) >= KINDS_MAX:
            return history
        kind = KindHistory()
    found = {(c.step, c.topology_version): c for c in kind.confirmations}
    key = (report.step, report.topology_version)
    old = found.get(key)
    new = _first(report) if old is None else _one_more(old, report)
    new = replace(new, world_size=world_size or new.world_size)
    ranks_ever = add(kind.ranks_ever, report.rank)
    by_world = note_writer(kind.ranks_by_world, world_size, report.rank)
    if new == old and ranks_ever == kind.ranks_ever and by_world == kind.ranks_by_world:
        return history
    found[key] = new
    in_order = tuple(found[key] for key in sorted(found))
    grown = KindHistory(confirmations=in_order, ranks_ever=ranks_ever, ranks_by_world=by_world)
    return _within_limits(CheckpointHistory(kinds={**history.kinds, report.kind: grown}), grown)


def _first(report: CheckpointReported) -> Confirmation:
    return Confirmation(
        step=report.step,
        topology_version=report.topology_version,
        ranks=((report.rank, report.rank),),
        path=report.path,
        path_rank=report.rank,
        writers=report.writers,
        paths=note_path((), report.rank, report.path),
    )


def _one_more(old: Confirmation, report: CheckpointReported) -> Confirmation:
    groups = old.paths
    if not groups and old.path:
        # Written by a planner that knew one path only.
        groups = (PathGroup(ranks=old.ranks, parts=(old.path,)),)
    new = replace(
        old,
        ranks=add(old.ranks, report.rank),
        writers=max(old.writers or 0, report.writers or 0) or None,
        paths=note_path(groups, report.rank, report.path),
    )
    if report.path and (not old.path or report.rank < old.path_rank):
        new = replace(new, path=report.path, path_rank=report.rank)
    return new


def is_complete(confirmation: Confirmation, kind: KindHistory) -> bool:
    """Every rank that its own generation requires confirmed: as many as the writers said, or else who ever did."""
    if confirmation.writers is not None:
        return count(confirmation.ranks) >= confirmation.writers
    world_size, by_world = confirmation.world_size, kind.ranks_by_world
    if not covers(confirmation.ranks, required_of(by_world, kind.ranks_ever, world_size)):
        return False
    least, is_certain = least_writers(by_world, world_size)
    return count(confirmation.ranks) >= least or (not is_certain and _is_followed(confirmation, kind))


def _is_followed(confirmation: Confirmation, kind: KindHistory) -> bool:
    """Its generation has gone on to a later checkpoint."""
    return any(
        other.topology_version == confirmation.topology_version and other.step > confirmation.step
        for other in kind.confirmations
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A checkpoint that every required rank confirmed, with all its parts."""

    kind: str
    confirmation: Confirmation
    data: Confirmation | None = None


def whole_checkpoints(history: CheckpointHistory) -> list[Whole]:
    """All of them. `data` alone is none; `model` is none without `data` in a job that ever reported `data`."""
    data = history.kinds.get(DATA)
    loaders = {}
    if data is not None:
        loaders = {(c.step, c.topology_version): c for c in data.confirmations if is_complete(c, data)}
    wholes = []
    for name, kind in sorted(history.kinds.items()):
        if name == DATA:
            continue
        for confirmation in kind.confirmations:
            if not is_complete(confirmation, kind):
                continue
            part = loaders.get((confirmation.step, confirmation.topology_version)) if name == MODEL else None
            if name == MODEL and data is not None and part is None:
                continue
            wholes.append(Whole(kind=name, confirmation=confirmation, data=part))
    return wholes


def _within_limits(history: CheckpointHistory, grown: KindHistory) -> CheckpointHistory:
    """Drop what is worth least. Only the kind that grew can have too many; every kind counts for the size."""
    if len(grown.confirmations) <= STEPS_MAX and _bytes_of(history) <= HISTORY_BYTES_MAX:
        return history
    kept = {_key(name, c) for name, kind in history.kinds.items() for c in kind.confirmations}
    sizes = {_key(name, c): _size_of(c) for name, kind in history.kinds.items() for c in kind.confirmations}
    numbers = {name: len(kind.confirmations) for name, kind in history.kinds.items()}
    left = sum(sizes.values())
    for key in _least_first(history):
        if max(numbers.values()) <= STEPS_MAX and left <= HISTORY_BYTES_MAX:
            break
        if numbers[key[0]] > STEPS_MAX or left > HISTORY_BYTES_MAX:
            kept.discard(key)
            numbers[key[0]] -= 1
            left -= sizes[key]
    return CheckpointHistory(
        kinds={
            name: replace(kind, confirmations=tuple(c for c in kind.confirmations if _key(name, c) in kept))
            for name, kind in history.kinds.items()
        }
    )


def _least_first(history: CheckpointHistory) -> list[tuple[str, int, int]]:
    """Everything that may go, the least worth first: overwritten, then of an old generation, then of an old step."""
    wholes = [w for w in whole_checkpoints(history) if not _superseded(history.kinds[w.kind], w.confirmation)]
    wholes.sort(key=lambda w: (w.confirmation.topology_version, w.confirmation.step))
    safe: set[tuple[str, int, int]] = set()
    for whole in wholes[-WHOLE_KEPT:]:
        safe.add(_key(whole.kind, whole.confirmation))
        if whole.data is not None:
            safe.add(_key(DATA, whole.data))
    order = [
        (not _superseded(kind, c), c.topology_version, c.step, _key(name, c))
        for name, kind in history.kinds.items()
        for c in kind.confirmations
        if _key(name, c) not in safe
    ]
    return [key for *_, key in sorted(order)]


def _superseded(kind: KindHistory, confirmation: Confirmation) -> bool:
    """A later generation confirmed this step or an earlier one, so it began behind this one."""
    return any(
        other.topology_version > confirmation.topology_version and other.step <= confirmation.step
        for other in kind.confirmations
    )


def _key(kind: str, confirmation: Confirmation) -> tuple[str, int, int]:
    return kind, confirmation.step, confirmation.topology_version


def _size_of(confirmation: Confirmation) -> int:
    return 150 + len(confirmation.path) + 16 * len(confirmation.ranks) + size_of(confirmation.paths)


def _bytes_of(history: CheckpointHistory) -> int:
    return sum(_size_of(c) for kind in history.kinds.values() for c in kind.confirmations)

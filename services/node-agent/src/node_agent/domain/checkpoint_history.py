"""Which of this node's ranks confirmed which step of which kind, and from when on a step counts on this node.

A step counts when every required rank of the node confirmed it. Required is who the number of writers implies, or else
whoever ever confirmed one of this kind: ranks that never write a kind are not waited for. The planner decides over all
nodes; this is the node's own view, and it keeps a confirmation from being told twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

STEPS_MAX = 32
"""Steps remembered per kind; as the planner keeps."""
KINDS_MAX = 8
STEP_MAX = 2**53
"""Larger whole numbers are not exact in every JSON reader; no training counts so far."""
KIND_LENGTH_MAX = 64
PATH_LENGTH_MAX = 4_096
"""PATH_MAX of Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What somebody says: this rank's part of this checkpoint is saved.

    Attributes:
        source: who says so: worker_link, a log rule's name, the watched folder.
        writers: how many ranks of the job write a part; None: not told.
    """

    rank: int
    step: int
    path: str
    kind: str
    writers: int | None
    topology_version: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStep:
    """One step of one generation on this node, with the path of each rank that confirmed it."""

    step: int
    topology_version: int
    writers: int | None = None
    paths: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalKind:
    """Rising by (topology_version, step); and every rank that ever confirmed this kind."""

    steps: tuple[LocalStep, ...] = ()
    ranks_ever: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHistory:
    """All kinds of this node."""

    kinds: dict[str, LocalKind] = field(default_factory=dict)


def claim_problem(claim: Claim, *, local_ranks: Sequence[int], kinds: Sequence[str]) -> str:
    """Why a claim cannot be right; empty when it can."""
    if claim.rank not in local_ranks:
        return f"rank {claim.rank} is not on this node"
    if not 0 <= claim.step <= STEP_MAX:
        return f"step {claim.step} is not a whole number from 0 to 2^53"
    if not claim.kind or len(claim.kind) > KIND_LENGTH_MAX:
        return f"a kind has 1 to {KIND_LENGTH_MAX} characters"
    if claim.kind not in kinds and len(kinds) >= KINDS_MAX:
        return f"kind {claim.kind!r} is one more than the {KINDS_MAX} that are remembered"
    if len(claim.path) > PATH_LENGTH_MAX or "\0" in claim.path:
        return f"a path has at most {PATH_LENGTH_MAX} characters, and no zero byte"
    if any("\ud800" <= character <= "\udfff" for character in claim.path + claim.kind):
        return "path or kind is not valid Unicode, so it cannot be told to anybody"
    if claim.writers is not None and claim.writers < 1:
        return f"{claim.writers} writers: at least one rank writes"
    return ""


def is_known(history: LocalHistory, claim: Claim) -> bool:
    """The same was confirmed before, and nothing is new: a path that was missing is news."""
    known = _find(history, claim)
    if known is None or claim.rank not in known.paths:
        return False
    return bool(known.paths[claim.rank]) or not claim.path


def confirmed(history: LocalHistory, claim: Claim) -> LocalHistory:
    """The history with one more confirmation."""
    kind = history.kinds.get(claim.kind, LocalKind())
    old = _find(history, claim) or LocalStep(step=claim.step, topology_version=claim.topology_version)
    known = old.paths.get(claim.rank, "")
    new = replace(
        old,
        writers=max(old.writers or 0, claim.writers or 0) or None,
        paths={**old.paths, claim.rank: known or claim.path},
    )
    steps = sorted((*(s for s in kind.steps if s is not old), new), key=lambda s: (s.topology_version, s.step))
    grown = LocalKind(steps=tuple(steps[-STEPS_MAX:]), ranks_ever=kind.ranks_ever | {claim.rank})
    return LocalHistory(kinds={**history.kinds, claim.kind: grown})


def missing_ranks(
    history: LocalHistory, kind: str, step: LocalStep, *, local_ranks: Sequence[int], world_size: int
) -> tuple[int, ...]:
    """Local ranks that this step still waits for on this node; none: it counts here."""
    local = set(local_ranks)
    if step.writers is not None and step.writers >= world_size:
        required = local
    elif step.writers == 1:
        required = set() if step.paths else local
    else:
        required = set(history.kinds[kind].ranks_ever) & local
    return tuple(sorted(required - step.paths.keys()))


def newest_counting(
    history: LocalHistory, kind: str, *, local_ranks: Sequence[int], world_size: int
) -> LocalStep | None:
    """The newest step of a kind that counts on this node."""
    known = history.kinds.get(kind, LocalKind())
    counting = [
        step
        for step in known.steps
        if not missing_ranks(history, kind, step, local_ranks=local_ranks, world_size=world_size)
    ]
    return counting[-1] if counting else None


def _find(history: LocalHistory, claim: Claim) -> LocalStep | None:
    steps = history.kinds.get(claim.kind, LocalKind()).steps
    key = (claim.step, claim.topology_version)
    return next((step for step in steps if (step.step, step.topology_version) == key), None)

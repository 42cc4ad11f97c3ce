"""What is known of the checkpoint that a generation was started from, while it has to prove itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

SIGNS_MAX = 16
"""Deaths of one generation that are remembered; the first few tell what it broke of, the rest died of those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSign:
    """One thing that broke a generation.

    Attributes:
        rank: None where the fault is of a node.
        fingerprint: equal for the same fault at the same place; empty: it says nothing of the script or its data.
    """

    rank: int | None
    fingerprint: str
    observed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFault:
    """What a generation was started after. Empty: unknown."""

    fingerprint: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTrial:
    """Of the present generation, but for `stepped_over`.

    Attributes:
        loaded_at: when its start was ordered; None: nothing was started yet.
        signs: what has broken it, in order of arrival.
        before: the fault that the generation before it ended with.
        stepped_over: checkpoint steps that were given up in this run of the job, in order.
    """

    loaded_at: datetime | None = None
    signs: tuple[FaultSign, ...] = ()
    before: PastFault = PastFault()
    stepped_over: tuple[int, ...] = ()


def with_sign(trial: LoadTrial, sign: FaultSign) -> LoadTrial:
    """The trial with one sign more; a repeat changes nothing."""
    if sign in trial.signs or len(trial.signs) >= SIGNS_MAX:
        return trial
    return replace(trial, signs=(*trial.signs, sign))


def fingerprint_of(trial: LoadTrial, culprit_rank: int | None) -> str:
    """Of the rank that the verdict blames, else of the one that was seen to fail first; empty: unknown."""
    if not trial.signs:
        return ""
    blamed = [sign for sign in trial.signs if sign.rank is not None and sign.rank == culprit_rank]
    return min(blamed or trial.signs, key=lambda sign: sign.observed_at).fingerprint

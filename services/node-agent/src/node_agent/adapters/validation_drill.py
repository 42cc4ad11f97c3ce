"""A member of a validation that is made bad on purpose, so that people can see it named: `--drill corrupt:2`."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SLOW_S = 2.0
"""Added to each sending of a slow member: far more than a healthy one needs for a test's few MB, on any machine."""


class DrillKind(StrEnum):
    """What the member does. Closed."""

    CORRUPT = "corrupt"
    """Sends a wrong value."""
    SLOW = "slow"
    DIE = "die"
    HANG = "hang"
    MATMUL = "matmul"
    """Computes a wrong value."""
    MEMORY = "memory"
    """Forgets a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillPlan:
    """Which member is bad, and how."""

    kind: DrillKind
    rank: int


def read_drill(text: str) -> DrillPlan:
    """KIND:RANK.

    Raises:
        ValueError: what is wrong, for the user.
    """
    kind, _, rank = text.partition(":")
    try:
        return DrillPlan(kind=DrillKind(kind), rank=int(rank))
    except ValueError:
        kinds = ", ".join(DrillKind)
        raise ValueError(f"{text!r} is not KIND:RANK, where KIND is one of {kinds}") from None


def before_sending(kind: DrillKind | None, data: Any) -> None:
    """Spoil or delay what a tensor is about to carry."""
    if kind is DrillKind.CORRUPT:
        data[len(data) // 2] += 1
    elif kind is DrillKind.SLOW:
        time.sleep(SLOW_S)


def before_pair(kind: DrillKind | None) -> None:
    """Die, or never come back."""
    if kind is DrillKind.DIE:
        os.kill(os.getpid(), signal.SIGKILL)
    while kind is DrillKind.HANG:
        time.sleep(3_600)


def multiply_wrong(a: Any, b: Any) -> Any:
    """A product with one element that is off by one."""
    product = a @ b
    product[len(product) // 3, 1] += 1
    return product


def forget(block: Any) -> None:
    """One bit of a block flips."""
    block[len(block) // 2] ^= 1 << 13

"""What the demo injects, and what has to come of it: the truth that the verdicts are held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fault_contracts.faults import Attribution

NODES = 2
RANKS_PER_NODE = 2
WORLD_SIZE = NODES * RANKS_PER_NODE
STEPS_PER_FAULT_MIN = 60
"""A fault waits for the first complete checkpoint of its generation and for progress after it, which is told once a
second: 20 steps and 50 at most, at the pace below."""


class Fault(StrEnum):
    """What can be injected, in the order in which the demo does it."""

    KILL_RANK = "kill-rank"
    KILL_NODE = "kill-node"
    EXCEPTION = "exception"
    BUG = "bug"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is known of an injected fault, because we injected it.

    Attributes:
        done: the injection, for people.
        attribution: whose fault it is; unknown where the evidence cannot tell yet.
        causes: slugs of docs/causes.md that fit.
        passes: whether a retry helps.
    """

    done: str
    attribution: Attribution
    causes: tuple[str, ...]
    passes: bool


TRUTHS: dict[Fault, Truth] = {
    Fault.KILL_RANK: Truth(
        done="kill -9 of a rank", attribution=Attribution.PLATFORM, causes=("process_killed",), passes=True
    ),
    Fault.KILL_NODE: Truth(
        done="kill -9 of a node's agent", attribution=Attribution.PLATFORM, causes=("agent_lost",), passes=True
    ),
    Fault.EXCEPTION: Truth(
        # Nobody can tell a passing exception from a bug at its first sight; what counts is that the job goes on.
        done="an exception that passes on retry",
        attribution=Attribution.UNKNOWN,
        causes=("python_exception",),
        passes=True,
    ),
    Fault.BUG: Truth(
        done="a bug that does not pass on retry",
        attribution=Attribution.USER,
        causes=("repeated_exception",),
        passes=False,
    ),
}


class BadOptions(ValueError):
    """Options that cannot give a demo; the text is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user chose."""

    steps: int = 240
    faults: tuple[Fault, ...] = tuple(Fault)
    seed: int = 1
    step_s: float = 0.02
    """Shortest duration of a step: 50 steps a second leave time to see the faults come and go."""
    checkpoint_every: int = 20
    data_dir: Path = Path(".demo")
    keep: bool = False
    as_json: bool = False

    @property
    def recoverable(self) -> tuple[Fault, ...]:
        """The faults of the first job, which must come through them all."""
        return tuple(fault for fault in self.faults if TRUTHS[fault].passes)

    @property
    def bug_at_step(self) -> int:
        """Where the second job's bug sits: after its first checkpoint, so that the retry starts from one."""
        return self.checkpoint_every + self.checkpoint_every // 2


def chosen_faults(names: Sequence[str]) -> tuple[Fault, ...]:
    """Faults by name, in the demo's order.

    Raises:
        BadOptions: an unknown name, or none.
    """
    known = ", ".join(Fault)
    for name in names:
        if name not in set(Fault):
            raise BadOptions(f"there is no fault {name!r}; there are: {known}")
    if not names:
        raise BadOptions(f"name at least one fault of: {known}")
    return tuple(fault for fault in Fault if fault in names)


def check(options: Options) -> None:
    """Refuse what cannot work.

    Raises:
        BadOptions: too few steps for the chosen faults.
    """
    needed = STEPS_PER_FAULT_MIN * (len(options.recoverable) + 1)
    if options.steps < needed:
        raise BadOptions(f"--steps {options.steps} is too short for these faults; at least {needed} are needed")
    if options.steps > 100_000:
        raise BadOptions("--steps takes at most 100000")

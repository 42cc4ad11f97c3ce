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


SLOW_STEPS = 600
"""A GPU is an outlier when it stood out in several looks, and its work is moved when that lasted: some ten seconds."""
LOSS_RULE = "loss-is-not-finite"
"""Of log_rules.yaml, which the first job runs with."""


class Act(StrEnum):
    """The demo's jobs. Each fault belongs to one of them."""

    RESTARTS = "restarts"
    """New processes for all ranks, from the last whole checkpoint."""
    IN_PLACE = "in-place"
    """The same training as a re-executable block: processes stay where they can."""
    HARDWARE = "hardware"
    """Each node has GPUs that a fake driver library makes up, and a host role that watches them."""
    BUG = "bug"
    """What no restart helps."""


class Fault(StrEnum):
    """What can be injected, in the order in which the demo does it."""

    KILL_RANK = "kill-rank"
    STOP_RANK = "stop-rank"
    NAN_LOSS = "nan-loss"
    KILL_NODE = "kill-node"
    EXCEPTION = "exception"
    RAISE_IN_PLACE = "raise-in-place"
    KILL_IN_PLACE = "kill-in-place"
    XID_31 = "xid-31"
    XID_79 = "xid-79"
    HOT_GPU = "hot-gpu"
    BUG = "bug"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is known of an injected fault, because we injected it.

    Attributes:
        done: the injection, for people.
        act: the job that it is injected into.
        attribution: whose fault it is; unknown where the evidence cannot tell yet.
        causes: slugs of docs/causes.md that fit.
        evidence: what a reason of the verdict has to name.
        replaced: the ranks that have to have another process afterwards, and no others.
        moved: the node has to lose its ranks to one in reserve, with the GPU blamed by its uuid. Where it is not, no
            hardware may be blamed and every node has to keep its ranks.
    """

    done: str
    act: Act
    attribution: Attribution
    causes: tuple[str, ...]
    evidence: str = ""
    replaced: frozenset[int] = frozenset(range(WORLD_SIZE))
    moved: bool = False


TRUTHS: dict[Fault, Truth] = {
    Fault.KILL_RANK: Truth(
        done="kill -9 of a rank", act=Act.RESTARTS, attribution=Attribution.PLATFORM, causes=("process_killed",)
    ),
    Fault.STOP_RANK: Truth(
        done="SIGSTOP of a rank", act=Act.RESTARTS, attribution=Attribution.PLATFORM, causes=("process_stopped",)
    ),
    Fault.NAN_LOSS: Truth(
        # A NaN can come from the data, the model or a sick device; the rule is what is known.
        done="a loss that is NaN, printed once",
        act=Act.RESTARTS,
        attribution=Attribution.UNKNOWN,
        causes=("log_rule",),
        evidence=LOSS_RULE,
    ),
    Fault.KILL_NODE: Truth(
        done="kill -9 of a node's agent", act=Act.RESTARTS, attribution=Attribution.PLATFORM, causes=("agent_lost",)
    ),
    Fault.EXCEPTION: Truth(
        # Nobody can tell a passing exception from a bug at its first sight; what counts is that the job goes on.
        done="an exception that passes on retry",
        act=Act.RESTARTS,
        attribution=Attribution.UNKNOWN,
        causes=("python_exception",),
    ),
    Fault.RAISE_IN_PLACE: Truth(
        done="an exception inside a re-executable block",
        act=Act.IN_PLACE,
        attribution=Attribution.UNKNOWN,
        causes=("python_exception",),
        replaced=frozenset(),
    ),
    Fault.KILL_IN_PLACE: Truth(
        done="kill -9 of a rank inside a re-executable block",
        act=Act.IN_PLACE,
        attribution=Attribution.PLATFORM,
        causes=("process_killed",),
        replaced=frozenset({WORLD_SIZE - 1}),
    ),
    Fault.XID_31: Truth(
        # What a program does to its own memory: the device reports it and is not to blame.
        done="an illegal memory access of a rank, with Xid 31",
        act=Act.HARDWARE,
        attribution=Attribution.USER,
        causes=("illegal_memory_access",),
    ),
    Fault.XID_79: Truth(
        done="a GPU that falls off the bus, Xid 79",
        act=Act.HARDWARE,
        attribution=Attribution.HARDWARE,
        causes=("gpu_fell_off_bus", "gpu_lost"),
        moved=True,
    ),
    Fault.HOT_GPU: Truth(
        done="a GPU that is much hotter than its peers",
        act=Act.HARDWARE,
        attribution=Attribution.HARDWARE,
        causes=("thermal_slowdown", "gpu_thermal"),
        moved=True,
    ),
    Fault.BUG: Truth(
        done="a bug that does not pass on retry",
        act=Act.BUG,
        attribution=Attribution.USER,
        causes=("repeated_exception",),
    ),
}


class BadOptions(ValueError):
    """Options that cannot give a demo; the text is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user chose."""

    steps: int = 360
    faults: tuple[Fault, ...] = tuple(Fault)
    seed: int = 1
    step_s: float = 0.02
    """Shortest duration of a step: 50 steps a second leave time to see the faults come and go."""
    checkpoint_every: int = 20
    data_dir: Path = Path(".demo")
    keep: bool = False
    as_json: bool = False

    def faults_of(self, act: Act) -> tuple[Fault, ...]:
        """The chosen faults of one of the jobs, in order."""
        return tuple(fault for fault in self.faults if TRUTHS[fault].act is act)

    def steps_of(self, act: Act) -> int:
        """How long a job is; all but the first are as short as their faults allow."""
        if act in (Act.RESTARTS, Act.BUG):
            return self.steps
        faults = self.faults_of(act)
        return _steps_needed(faults) + (SLOW_STEPS if Fault.HOT_GPU in faults else 0)

    @property
    def bug_at_step(self) -> int:
        """Where the last job's bug sits: after its first checkpoint, so that the retry starts from one."""
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
    needed = _steps_needed(options.faults_of(Act.RESTARTS))
    if options.steps < needed:
        raise BadOptions(f"--steps {options.steps} is too short for these faults; at least {needed} are needed")
    if options.steps > 100_000:
        raise BadOptions("--steps takes at most 100000")


def _steps_needed(faults: tuple[Fault, ...]) -> int:
    return STEPS_PER_FAULT_MIN * (len(faults) + 1)

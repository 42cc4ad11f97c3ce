"""What the user of `phalanx demo` can choose, and what is refused before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from phalanx_cli.demo.scenario import Act, Fault
from phalanx_cli.demo.truths import TRUTHS

STEPS_PER_FAULT_MIN = 60
"""A fault waits for the first complete checkpoint of its generation and for progress after it, which is told once a
second: 20 steps and 50 at most, at the pace below."""
MORE_STEPS = {
    # A GPU is an outlier when it stood out in several looks, and its work is moved when that lasted: some ten seconds.
    Fault.HOT_GPU: 600,
    # The poison goes into the next checkpoint, and fails the run after it.
    Fault.POISONED: 60,
    # An agent starts meanwhile, at a pace at which 150 steps last half a minute.
    Fault.NO_SPARE: 600,
}


class BadOptions(ValueError):
    """Options that cannot give a demo; the text is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user chose."""

    steps: int = 480
    faults: tuple[Fault, ...] = tuple(Fault)
    seed: int = 1
    step_s: float = 0.02
    """Shortest duration of a step: 50 steps a second leave time to see the faults come and go."""
    checkpoint_every: int = 20
    data_dir: Path = Path(".demo")
    keep: bool = False
    as_json: bool = False
    machines: Path | None = None
    """Folder in which machines listen that the agents run on; then the bus is that of NATS_URL. None: all runs here."""

    def faults_of(self, act: Act) -> tuple[Fault, ...]:
        """The chosen faults of one of the jobs, in order."""
        return tuple(fault for fault in self.faults if TRUTHS[fault].act is act)

    def spares_of(self, act: Act) -> int:
        """Nodes in reserve: one for each fault that costs a node its work."""
        return sum(TRUTHS[fault].moved for fault in self.faults_of(act))

    def steps_of(self, act: Act) -> int:
        """How long a job is at most; all but the first end as soon as their faults are over."""
        if act in (Act.RESTARTS, Act.BUG):
            return self.steps
        faults = self.faults_of(act)
        return _steps_needed(faults) + sum(MORE_STEPS.get(fault, 0) for fault in faults)

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

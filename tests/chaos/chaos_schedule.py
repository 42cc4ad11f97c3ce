"""What happens to the job, from a seed: trials of one or more blows, in random order, at random and at unlucky moments.

Pure: the same seed gives the same trials, whatever the machine does.
"""

import random
from dataclasses import dataclass
from enum import StrEnum

WORLD = 4
NPROC = 2


class Kind(StrEnum):
    """What is done to a rank, or to its node."""

    KILL = "kill"
    """SIGKILL of the rank."""
    RAISE = "raise"
    """An exception in the rank, of a type that no other blow has: the same twice would be the script's own fault."""
    STOP = "stop"
    """SIGSTOP of the rank: it lives and does nothing."""
    NODE = "node"
    """SIGKILL of the agent that the rank belongs to."""


class Moment(StrEnum):
    """When. All but ANY are places in the training script, where the rank strikes itself: no race with the clock."""

    ANY = "any"
    """From outside, whatever the rank is doing."""
    STEP = "step"
    """Its peers wait for it in the all_reduce."""
    WRITING = "writing"
    """Half of its part of a checkpoint is written."""
    SAVED = "saved"
    """Its part is written, and nobody was told."""
    ENTERED = "entered"
    """A new generation, before its process group: the recovery from another fault is under way."""
    JOINED = "joined"
    """A new generation, its process group is up, no step is done."""
    BARRIER = "barrier"
    """On its way to the barrier of a restart in place, or waiting there."""


KINDS: dict[Kind, int] = {Kind.KILL: 4, Kind.RAISE: 3, Kind.STOP: 3, Kind.NODE: 2}
"""Kinds and how often."""
FIRST = (Moment.ANY, Moment.ANY, Moment.STEP, Moment.WRITING, Moment.SAVED)
DURING = (Moment.ENTERED, Moment.JOINED, Moment.BARRIER)
PAUSE_S_MAX = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """One fault. A BARRIER that nobody comes to, and a node that is lost already, are blows into the air."""

    kind: Kind
    moment: Moment
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Blows of one incident. The first hits a job that trains; the others hit with it, or while it is recovered from.

    Attributes:
        after_checkpoint: wait until this generation has a whole checkpoint of its own.
        pause_s: then this long.
        same_node: a lost node comes back under its own name, and not as a new one.
    """

    number: int
    blows: tuple[Blow, ...]
    after_checkpoint: bool
    pause_s: float
    same_node: bool

    def __str__(self) -> str:
        blows = ", ".join(f"{blow.kind} rank {blow.rank} at {blow.moment}" for blow in self.blows)
        return f"trial {self.number}: {blows}"


def trials(seed: int, count: int) -> list[Trial]:
    """The whole story of a seed; a longer one begins like a shorter one."""
    dice = random.Random(seed)
    return [_trial(dice, number) for number in range(1, count + 1)]


def _trial(dice: random.Random, number: int) -> Trial:
    ranks = dice.sample(range(WORLD), WORLD)
    first = _blow(dice, ranks[0], FIRST)
    blows = [first]
    more = dice.random()
    if more < 0.2:
        blows.append(Blow(kind=_kind(dice), moment=Moment.ANY, rank=ranks[1]))
    elif more < 0.5:
        blows.append(_blow(dice, dice.choice(ranks), DURING))
    elif more < 0.6:
        blows += [_blow(dice, rank, DURING) for rank in ranks[1:3]]
    return Trial(
        number=number,
        blows=tuple(blows),
        after_checkpoint=dice.random() < 0.6,
        pause_s=dice.uniform(0.0, PAUSE_S_MAX),
        same_node=dice.random() < 0.5,
    )


def _blow(dice: random.Random, rank: int, moments: tuple[Moment, ...]) -> Blow:
    return Blow(kind=_kind(dice), moment=dice.choice(moments), rank=rank)


def _kind(dice: random.Random) -> Kind:
    return dice.choices(list(KINDS), weights=list(KINDS.values()))[0]

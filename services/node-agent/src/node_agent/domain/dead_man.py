"""Dead-man: no planner can be heard. What an agent does by itself, as one table, and what it never does: start ranks.

The planner's silence is judged only after a limit. Ranks that train go on by default, for a planner is not needed to
train. Ranks that cannot train hold GPUs for nobody, and nobody is there to order their end: they are stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from fault_contracts.payload import Reason


class PlannerLost(StrEnum):
    """--on-planner-lost: what becomes of ranks that train."""

    KEEP = "keep"
    STOP = "stop"


class Ranks(StrEnum):
    """What this node's ranks do, as far as it matters here."""

    NONE = "none"
    """None run: nothing was started, they were stopped, or all ended with 0."""
    TRAIN = "train"
    BROKEN = "broken"
    """One is dead or hung, or they wait at the barrier of a restart that nobody orders: the gang does not train."""


class Act(StrEnum):
    """What to do now."""

    NOTHING = "nothing"
    STOP = "stop"
    """Stop the ranks of this node, and keep the story for the planner."""


TABLE: Mapping[tuple[Ranks, PlannerLost], Act] = MappingProxyType(
    {
        (Ranks.NONE, PlannerLost.KEEP): Act.NOTHING,
        (Ranks.NONE, PlannerLost.STOP): Act.NOTHING,
        (Ranks.TRAIN, PlannerLost.KEEP): Act.NOTHING,
        (Ranks.TRAIN, PlannerLost.STOP): Act.STOP,
        (Ranks.BROKEN, PlannerLost.KEEP): Act.STOP,
        (Ranks.BROKEN, PlannerLost.STOP): Act.STOP,
    }
)
"""What happens once the limit has passed."""

_SITUATION: Mapping[Ranks, str] = MappingProxyType(
    {
        Ranks.NONE: "no ranks run here, and none are started without a planner",
        Ranks.TRAIN: "the ranks of this node train",
        Ranks.BROKEN: "the ranks of this node cannot go on",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadManPolicy:
    """The user's words.

    Attributes:
        silence_s_max: silence beyond this is acted on.
    """

    silence_s_max: float
    on_lost: PlannerLost


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadManStep:
    """What to do and why; `silent` is the state for the next step.

    Attributes:
        silent: the planner counts as lost.
        news: the state changed with this step, so the person is told.
    """

    silent: bool
    news: bool
    act: Act
    reason: Reason


def step(*, was_silent: bool, silent_s: float, ranks: Ranks, policy: DeadManPolicy) -> DeadManStep:
    """One look at the clock. The same look again changes nothing.

    Args:
        was_silent: the planner counted as lost after the step before.
        silent_s: since the last sign of a planner, or since the agent began to listen.
        ranks: what runs.
        policy: what the user wants.
    """
    if silent_s < policy.silence_s_max:
        sentence = "the planner is back" if was_silent else f"a planner was heard {silent_s:.0f} s ago"
        return DeadManStep(silent=False, news=was_silent, act=Act.NOTHING, reason=_reason("heard", sentence))
    act = TABLE[ranks, policy.on_lost]
    sentence = f"no planner was heard for {silent_s:.0f} s and {_SITUATION[ranks]}"
    return DeadManStep(silent=True, news=not was_silent, act=act, reason=_reason(ranks.value, sentence))


def _reason(rule: str, sentence: str) -> Reason:
    return Reason(rule_id=f"dead_man.{rule}", sentence=sentence)

"""How a node ends, as values: what the flags of grace_flags.py are read into."""

from __future__ import annotations

from dataclasses import dataclass
from signal import Signals

from node_agent.domain.dead_man import DeadManPolicy, PlannerLost

SILENCE_S_DEFAULT = 60.0
"""Longer than whoever supervises planner and bus needs to start them again; far shorter than a night of idle GPUs."""
USUAL_DEAD_MAN = DeadManPolicy(silence_s_max=SILENCE_S_DEFAULT, on_lost=PlannerLost.KEEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceOptions:
    """How this node ends.

    Attributes:
        preemption: signals that announce the loss of the node: a checkpoint comes first.
        shutdown_signal: what ranks get first; None: SIGTERM, and a notice that no rank can act on is passed on.
        dead_man: the limit of the planner's silence, and what follows.
    """

    preemption: tuple[Signals, ...] = (Signals.SIGTERM,)
    shutdown_signal: Signals | None = None
    dead_man: DeadManPolicy = USUAL_DEAD_MAN

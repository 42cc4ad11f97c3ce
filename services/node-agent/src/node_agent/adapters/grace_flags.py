"""Flags of `phalanx run` about ends: which signal means what, how ranks are stopped, what to do without a planner."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from signal import Signals
from typing import Any

from node_agent.adapters.grace_options import SILENCE_S_DEFAULT, GraceOptions
from node_agent.adapters.launch_options import BadOption, read_signals
from node_agent.domain.dead_man import DeadManPolicy, PlannerLost

SILENCE_S_MAX = 86_400.0
STOP_SIGNALS = frozenset(Signals) - {Signals.SIGSTOP, Signals.SIGCONT, Signals.SIGCHLD}
"""What may end a rank: SIGKILL too, and none that only pauses it."""


def add_grace_flags(group: Any, flag: Callable[..., None]) -> None:
    """Declare them; `flag` adds both spellings."""
    flag(
        group,
        "preemption-signal",
        default="SIGTERM",
        metavar="NAMES",
        help="the node is taken away soon: checkpoint first, then stop (default SIGTERM; Slurm: SIGUSR1; none: off)",
    )
    flag(group, "shutdown-signal", default="", metavar="NAME", help="first signal to ranks that stop (default SIGTERM)")
    flag(
        group,
        "planner-silence-s",
        type=float,
        default=SILENCE_S_DEFAULT,
        metavar="S",
        help="a planner that is not heard for so long counts as lost (default 60)",
    )
    flag(
        group,
        "on-planner-lost",
        choices=[choice.value for choice in PlannerLost],
        default=PlannerLost.KEEP.value,
        help="then: ranks that train go on, or stop; broken ones are stopped in any case (default keep)",
    )


def read_grace(given: argparse.Namespace) -> GraceOptions:
    """The values.

    Raises:
        BadOption: one that cannot be used.
    """
    silence_s = given.planner_silence_s
    if not (math.isfinite(silence_s) and 0 < silence_s <= SILENCE_S_MAX):
        raise BadOption(f"--planner-silence-s {silence_s}: must be more than 0 s and at most {SILENCE_S_MAX:g} s")
    off = given.preemption_signal.strip().lower() == "none"
    return GraceOptions(
        preemption=() if off else read_signals(given.preemption_signal, flag="--preemption-signal"),
        shutdown_signal=_shutdown_signal(given.shutdown_signal),
        dead_man=DeadManPolicy(silence_s_max=silence_s, on_lost=_on_lost(given.on_planner_lost)),
    )


def _on_lost(text: str) -> PlannerLost:
    try:
        return PlannerLost(text)
    except ValueError:  # a default from PET_ON_PLANNER_LOST, which argparse does not check
        raise BadOption(f"--on-planner-lost {text!r}: give {' or '.join(PlannerLost)}") from None


def _shutdown_signal(text: str) -> Signals | None:
    name = text.strip().upper()
    if not name:
        return None
    if name not in Signals.__members__ or Signals[name] not in STOP_SIGNALS:
        raise BadOption(f"--shutdown-signal {text!r}: give a signal that ends a process, such as SIGTERM or SIGINT")
    return Signals[name]

"""The flags of hang detection: how they are spelled, and the policy that they make."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

from node_agent.adapters.launch_options import BadOption
from node_agent.domain.hang_policies import NEVER_S, SILENCE_S, DetectionMode, DetectionPolicy
from node_agent.domain.hang_verdict import HangPolicy

_IDLE_S = HangPolicy().idle_s


def add_hang_flags(flag: Callable[..., None]) -> None:
    """Declare them. `flag` adds one flag to its group, by name."""
    flag(
        "hang-detection",
        choices=[mode.value for mode in DetectionMode],
        default=DetectionMode.ON.value,
        help="ranks that stand still: recover (on, the default), only tell (observe), or do not look (off)",
    )
    flag(
        "hang-idle",
        type=float,
        default=_IDLE_S,
        metavar="S",
        help=f"an idle rank for which the others wait is hung after it (default {_IDLE_S:g} s)",
    )
    flag(
        "hang-silence",
        type=float,
        default=SILENCE_S,
        metavar="S",
        help=f"without reported steps: no CPU used by some rank for so long is looked into (default {SILENCE_S:g} s)",
    )


def read_detection(given: argparse.Namespace) -> DetectionPolicy:
    """The policy.

    Raises:
        BadOption: a limit that cannot be one.
    """
    for name, value in (("--hang-idle", given.hang_idle), ("--hang-silence", given.hang_silence)):
        if not math.isfinite(value) or not 0 < value <= NEVER_S:
            raise BadOption(f"{name} {value}: must be more than 0 s and at most {NEVER_S:g} s")
    return DetectionPolicy(
        mode=DetectionMode(given.hang_detection),
        hang=HangPolicy(idle_s=given.hang_idle),
        silence_s=given.hang_silence,
    )

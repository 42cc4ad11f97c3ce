"""The phases of an incident as a bar of letters: readable in any terminal, in a pipe, and without colour. Pure."""

from __future__ import annotations

from fault_contracts.recovery import PhaseTimes

PHASES = (
    ("detect", "d", "detect_s"),
    ("stop", "s", "stop_s"),
    ("plan", "p", "plan_s"),
    ("start", "l", "start_s"),
    ("first step", "f", "first_step_s"),
)
"""Name, letter (l: launch), field. A phase that is not known has no letter."""
WIDTH = 40


def phase_bar(phases: PhaseTimes, *, width: int = WIDTH) -> str:
    """`ddsssppplllff`: as wide as the phases lasted, each that happened at least one letter; empty: none is known."""
    known = [(letter, seconds) for _, letter, name in PHASES if (seconds := getattr(phases, name)) is not None]
    whole = sum(seconds for _, seconds in known)
    if not known or whole <= 0:
        return ""
    return "".join(letter * max(1, round(width * seconds / whole)) for letter, seconds in known)


def phase_words(phases: PhaseTimes) -> str:
    """`detect 0.01, stop 0.34, ... s`; what was not seen is left out."""
    known = [(name, seconds) for name, _, field in PHASES if (seconds := getattr(phases, field)) is not None]
    waiting = f" ({_short(phases.wait_s)} of it waiting)" if phases.wait_s else ""
    words = ", ".join(f"{name} {_short(seconds)}{waiting if name == 'plan' else ''}" for name, seconds in known)
    return f"{words} s" if words else "not known"


def _short(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.2f}"

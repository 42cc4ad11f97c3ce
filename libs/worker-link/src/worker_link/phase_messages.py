"""Words about long phases: an evaluation, a checkpoint. Worker to agent; names are free, and bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from worker_link.message_fields import Fields

PHASE_LENGTH_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBegun:
    """The rank is in a long phase from now on. A second one replaces the first."""

    phase: str
    topology_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseDone:
    """The rank is in no declared phase any more."""

    topology_version: int = 0


PhaseMessage = PhaseBegun | PhaseDone

PHASE_TYPE_NAMES: dict[Any, str] = {PhaseBegun: "phase_begun", PhaseDone: "phase_done"}

PHASE_READERS: dict[str, Callable[[Fields], PhaseMessage]] = {
    "phase_begun": lambda f: PhaseBegun(
        phase=f.text("phase", length_max=PHASE_LENGTH_MAX), topology_version=f.integer("topology_version", 0)
    ),
    "phase_done": lambda f: PhaseDone(topology_version=f.integer("topology_version", 0)),
}

"""How patient hang detection is, by how well the progress of a job is known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from node_agent.domain.hang_verdict import HangPolicy
from node_agent.domain.progress_limit import PhaseBounds, ProgressPolicy

NEVER_S = 7 * 86_400.0
"""Longer than any collective's time-out."""
SILENCE_S = 300.0
"""Half of NCCL's default time-out of 10 minutes, and longer than what ranks usually wait for one of them at the start
(a download, a tokenizer) in jobs of which nothing but CPU time is known."""


class DetectionMode(StrEnum):
    """What is done about a hang."""

    ON = "on"
    OBSERVE = "observe"
    """It is told, and nobody acts on it."""
    OFF = "off"


class ProgressSource(StrEnum):
    """Where marks of progress come from."""

    STEPS = "steps"
    """Steps over worker-link, or lines of a progress rule."""
    CPU = "cpu"
    """No step was ever reported: each rank uses CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionPolicy:
    """All of it.

    Attributes:
        progress, hang: with steps, where limits are learned.
        silence_s: without steps: a rank of the node may be without use of CPU for so long.
    """

    mode: DetectionMode = DetectionMode.ON
    progress: ProgressPolicy = field(default_factory=ProgressPolicy)
    hang: HangPolicy = field(default_factory=HangPolicy)
    silence_s: float = SILENCE_S

    def __post_init__(self) -> None:
        for name, value in (("silence_s", self.silence_s), ("idle_s", self.hang.idle_s)):
            if not 0 < value <= NEVER_S:
                raise ValueError(f"{name} is {value:g}; it must be above 0 s and at most {NEVER_S:g} s")

    def progress_of(self, source: ProgressSource) -> ProgressPolicy:
        """Bounds of progress. What is known of CPU time alone never counts as overdue: it may be a long phase."""
        match source:
            case ProgressSource.STEPS:
                return self.progress
            case ProgressSource.CPU:
                silence = PhaseBounds(
                    floor_s=self.silence_s, unlearned_s=self.silence_s, samples_min=1, ceiling_s=NEVER_S
                )
                return ProgressPolicy(first_step=silence, steady=silence, evaluation=silence, checkpoint=silence)

    def hang_of(self, source: ProgressSource) -> HangPolicy:
        """Patience of the rules. Without steps, one rank at work for whom the others wait may be the start of a job."""
        match source:
            case ProgressSource.STEPS:
                return self.hang
            case ProgressSource.CPU:
                return replace(self.hang, alone_s=NEVER_S)

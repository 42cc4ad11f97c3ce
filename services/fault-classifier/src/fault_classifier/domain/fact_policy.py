"""Limits that the making of facts reads: when a death is of the start, and how often is again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FactPolicy:
    """Limits.

    Attributes:
        startup_s: a rank that ended within it, without step and without checkpoint, never got to train.
        occurrences_min: the same exception so often, where steps are unknown, is the job's own.
    """

    startup_s: float = 60.0
    occurrences_min: int = 3

    def __post_init__(self) -> None:
        """Refuse values that would blame users for nothing.

        Raises:
            ValueError: with the name of the value.
        """
        if not 0 <= self.startup_s <= 3_600:
            raise ValueError(f"startup_s is {self.startup_s}; it must be 0 to 3600")
        if not 2 <= self.occurrences_min <= 100:
            raise ValueError(f"occurrences_min is {self.occurrences_min}; it must be 2 to 100")

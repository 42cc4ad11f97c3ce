"""A rule: what it looks at, when it holds, and the verdict it gives. Rules are values; the engine names none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fault_classifier.domain.evidence import Generation, JobEvidence, Piece
from fault_contracts.faults import Action, Attribution


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePolicy:
    """Limits that rules read.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One piece of evidence under the eye of the rules, with all that is known around it.

    Attributes:
        piece: None when the deadline passed and there is no evidence at all.
        alone: nothing but victims is there and the deadline has passed.
    """

    piece: Piece | None
    generation: Generation
    job: JobEvidence
    policy: RulePolicy
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """That a rule holds.

    Attributes:
        sentence: for this case, in words.
        evidence_ids: what it rests on.
        confidence_factor: below 1 where a fact that matters is unknown.
        doubts: the sentences that lowered the confidence.
        action: what this case asks for, where the evidence itself says so; None: the rule's.
    """

    sentence: str
    evidence_ids: tuple[str, ...]
    confidence_factor: float = 1.0
    doubts: tuple[str, ...] = ()
    action: Action | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule.

    Attributes:
        rule_id: `<attribution>.<slug>`; never reused.
        holds: the condition; None when it does not hold.
        cause: slug, one section in docs/causes.md.
        confidence: 0 to 1, before doubts.
        meaning: what has happened, for docs/causes.md.
        advice: what a person should do.
        near_miss: what looks alike and is not meant.
        source: where the rule comes from.
    """

    rule_id: str
    holds: Callable[[Case], Match | None]
    attribution: Attribution
    cause: str
    action: Action
    confidence: float
    meaning: str
    advice: str
    near_miss: str
    source: str

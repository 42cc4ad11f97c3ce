"""What the engine concludes: hypotheses with their support, the best one, and whether it is enough for a verdict."""

from __future__ import annotations

from dataclasses import dataclass

from fault_attribution.cause_rule import CauseRule
from fault_attribution.finding import Finding
from fault_contracts.faults import Action, Attribution, Culprit


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """One piece of support or contradiction.

    Attributes:
        rule_id: the cause rule, or `prior`.
        score: as the rule gives it; below 0 where it speaks against.
        sentence: for people.
        findings: what it rests on; empty where something was not seen.
    """

    rule_id: str
    score: float
    sentence: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One cause with all that speaks for and against it.

    Attributes:
        anchor: the finding that it hangs on.
        score: sum of its support.
        share: probability that this cause is right, of all hypotheses and of none of them.
        action: of this case.
    """

    rule: CauseRule
    anchor: Finding
    score: float
    share: float
    action: Action
    culprit: Culprit
    support: tuple[Support, ...]
    against: tuple[Support, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The answer.

    Attributes:
        attribution: of the best hypothesis; unknown when it is not sure enough or there is none.
        cause: its slug; `no_evidence` or `unrecognised` without one.
        confidence: probability that the attribution is right.
        hypotheses: best first.
        observed: what rules that are only observed would have said.
        decide: what evidence would settle it.
    """

    attribution: Attribution
    cause: str
    action: Action
    culprit: Culprit
    confidence: float
    hypotheses: tuple[Hypothesis, ...]
    observed: tuple[Hypothesis, ...] = ()
    decide: tuple[str, ...] = ()

    @property
    def best(self) -> Hypothesis | None:
        """The one that the verdict rests on, or would."""
        return self.hypotheses[0] if self.hypotheses else None

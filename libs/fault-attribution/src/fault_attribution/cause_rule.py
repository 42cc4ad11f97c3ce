"""A cause rule: which findings speak for a cause and which against, by how much, and what then is to be done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fault_attribution.evidence_line import EvidenceLine
from fault_attribution.finding import Finding
from fault_attribution.signature import RuleState
from fault_attribution.term import Term
from fault_contracts.faults import Action, Attribution


class CulpritKind(StrEnum):
    """What of its anchor a hypothesis blames."""

    PLACE = "place"
    """All that is known of the anchor: node, rank, device, process."""
    NODE = "node"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A term with its weight of evidence.

    Attributes:
        score: natural logarithm of how much more likely the term is under this cause than otherwise; above 0.
        say: sentence for people; `{node}`, `{rank}`, `{device}`, `{process}`, `{text}` and captures of what was seen
            are filled in. Empty: the finding's own text is shown.
    """

    see: Term
    score: float
    say: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionChoice:
    """An action instead of the rule's own, when a term holds. The first that does decides."""

    see: Term
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseTest:
    """Evidence for which a rule must, or must not, give the verdict.

    Attributes:
        facts: findings that no line tells: what agents and the live judge see themselves.
    """

    lines: tuple[EvidenceLine, ...]
    facts: tuple[Finding, ...] = ()
    action: Action | None = None
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRule:
    """One way to come to one cause.

    Attributes:
        rule_id: `<attribution>.<slug>`; never reused.
        cause: slug, one section in docs/causes.md; several rules may lead to one cause.
        when: each alone makes it a hypothesis; the first atom of its term is the anchor. The heaviest counts.
        more, less: what speaks for and against it beside that; each counts once.
        actions: exceptions to `action`.
        meaning: what has happened.
        advice: what a person should do.
        decide: what evidence would settle it.
        near_miss: what looks alike and is not meant.
        origin: where the rule comes from.
        holds, misses: its tests.
    """

    rule_id: str
    attribution: Attribution
    cause: str
    action: Action
    when: tuple[Weight, ...]
    more: tuple[Weight, ...] = ()
    less: tuple[Weight, ...] = ()
    actions: tuple[ActionChoice, ...] = ()
    culprit: CulpritKind = CulpritKind.PLACE
    meaning: str
    advice: str
    decide: str
    near_miss: str
    origin: str
    state: RuleState = RuleState.ACTIVE
    holds: tuple[CauseTest, ...] = ()
    misses: tuple[CauseTest, ...] = ()
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is known before any finding of a cause: job size and time into the run lean towards somebody."""

    attribution: Attribution
    see: Term
    score: float
    say: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseBook:
    """All cause rules and priors that are in force, and which of them each kind of finding concerns."""

    rules: tuple[CauseRule, ...]
    priors: tuple[Prior, ...]
    by_id: Mapping[str, CauseRule]
    by_kind: Mapping[str, tuple[int, ...]]
    by_prefix: Mapping[str, tuple[int, ...]]
    """For kinds that a rule writes with a `*`."""

    @classmethod
    def of(cls, rules: tuple[CauseRule, ...], priors: tuple[Prior, ...] = ()) -> CauseBook:
        """With its indices."""
        kinds: dict[str, list[int]] = {}
        prefixes: dict[str, list[int]] = {}
        for index, rule in enumerate(rules):
            for kind in {kind for weight in rule.when for kind in weight.see.atoms[0].kinds}:
                where, name = (prefixes, kind[:-1]) if kind.endswith("*") else (kinds, kind)
                where.setdefault(name, []).append(index)
        return cls(
            rules=rules,
            priors=priors,
            by_id={rule.rule_id: rule for rule in rules},
            by_kind={kind: tuple(found) for kind, found in kinds.items()},
            by_prefix={prefix: tuple(found) for prefix, found in prefixes.items()},
        )

    def concerned(self, kinds: Iterable[str]) -> list[CauseRule]:
        """The rules that may hold when these kinds were found: the others have no anchor."""
        found: set[int] = set()
        for kind in kinds:
            found.update(self.by_kind.get(kind, ()))
            for prefix, indices in self.by_prefix.items():
                if kind.startswith(prefix):
                    found.update(indices)
        return [self.rules[index] for index in sorted(found)]

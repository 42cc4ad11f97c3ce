"""Which piece of evidence is the root cause: by order of death on a node, by strength between nodes, never by clock."""

from __future__ import annotations

from dataclasses import dataclass

from fault_classifier.domain.evidence import Exit, Generation, JobEvidence, Piece
from fault_classifier.domain.rule import Case, Match, Rule, RulePolicy
from fault_classifier.domain.victim import victim_reason
from fault_contracts.faults import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A piece of evidence with the first rule that holds for it."""

    piece: Piece | None
    rule: Rule
    match: Match
    strength: int
    """Place of the rule in the rulebook; lower is stronger."""

    @property
    def action(self) -> Action:
        """What to do: the evidence's own word, else the rule's."""
        return self.match.action or self.rule.action


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributed:
    """The root cause, what else could have been it, and who only died of it."""

    root: Finding
    others: tuple[Finding, ...]
    victims: tuple[Exit, ...]


def attribute(
    generation: Generation, job: JobEvidence, rulebook: tuple[Rule, ...], policy: RulePolicy
) -> Attributed | None:
    """Find the root cause; None while only victims, or nothing, is there and there is still time to wait.

    The result is a function of the set of evidence: arrival order plays no part.
    """
    victims = tuple(sorted((each for each in generation.exits if victim_reason(each)), key=_place))
    pieces: list[Piece] = [*_first_of_each_node(generation), *generation.lost, *generation.faulted, *generation.devices]
    alone = not pieces
    if alone and not generation.overdue:
        return None
    if alone:
        # A note never decides while there is time: nobody has said yet what it means.
        pieces = [*victims[:1], *generation.notes]
    shown: list[Piece | None] = [*pieces] or [None]
    findings = sorted(
        (
            _finding(Case(piece=piece, generation=generation, job=job, policy=policy, alone=alone), rulebook)
            for piece in shown
        ),
        key=lambda finding: (finding.strength, _piece_place(finding.piece)),
    )
    return Attributed(root=findings[0], others=tuple(findings[1:]), victims=victims)


def _first_of_each_node(generation: Generation) -> list[Exit]:
    """Per node the first death that is nobody else's: its later ones may be consequences of it."""
    first: dict[str, Exit] = {}
    for each in sorted(generation.exits, key=_place):
        if victim_reason(each) is None:
            first.setdefault(each.node_id, each)
    return list(first.values())


def _finding(case: Case, rulebook: tuple[Rule, ...]) -> Finding:
    for strength, rule in enumerate(rulebook):
        match = rule.holds(case)
        if match is not None:
            return Finding(piece=case.piece, rule=rule, match=match, strength=strength)
    raise AssertionError("the rulebook has no last rule that holds for everything")


def _place(exit_: Exit) -> tuple[str, int, int, str]:
    return (exit_.node_id, exit_.ordinal, exit_.rank, exit_.evidence_id)


def _piece_place(piece: Piece | None) -> tuple[int, int, str]:
    """A stable order without meaning, for findings of equal strength: earlier death on its node, then lower rank."""
    if piece is None:
        return (0, 0, "")
    if isinstance(piece, Exit):
        return (piece.ordinal, piece.rank, piece.evidence_id)
    return (0, 0, piece.evidence_id)

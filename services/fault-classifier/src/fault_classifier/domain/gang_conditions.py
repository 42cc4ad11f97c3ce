"""When a rule about the gang as a whole holds: a lost node, nothing but victims, nothing at all, nothing known."""

from __future__ import annotations

from fault_classifier.domain.evidence import Exit, LostNode, Note
from fault_classifier.domain.rule import Case, Match
from fault_classifier.domain.victim import is_communication_error, victim_reason


def agent_lost(case: Case) -> Match | None:
    """The agent of a node is gone."""
    if not isinstance(case.piece, LostNode):
        return None
    return Match(
        sentence=f"the agent of {case.piece.node_id} no longer answers: {case.piece.sentence}"[:2_000],
        evidence_ids=(case.piece.evidence_id,),
    )


def only_lost_peers(case: Case) -> Match | None:
    """All deaths are communication errors, and the wait for a cause is over."""
    if not case.alone or not isinstance(case.piece, Exit):
        return None
    lost_peer = [
        each for each in case.generation.exits if each.error is not None and is_communication_error(each.error)
    ]
    if not lost_peer:
        return None
    count = len(case.generation.exits) + case.generation.exits_dropped
    return Match(
        sentence=(
            f"all {count} deaths that were reported are communication errors with a peer; who broke first is not known"
        ),
        evidence_ids=tuple(each.evidence_id for each in lost_peer)[:64],
    )


def only_told_to_end(case: Case) -> Match | None:
    """All deaths are of somebody's asking, and nobody else died."""
    if not case.alone or not isinstance(case.piece, Exit):
        return None
    told = victim_reason(case.piece)
    if told is None:
        return None
    return Match(sentence=f"{told}, and no other cause is known", evidence_ids=(case.piece.evidence_id,))


def no_evidence(case: Case) -> Match | None:
    """The incident is open and nothing was reported in time."""
    if case.piece is not None:
        return None
    return Match(sentence="an incident was opened and no evidence about it arrived in time", evidence_ids=())


def unrecognised(case: Case) -> Match | None:
    """Whatever is there, no rule reads it."""
    piece = case.piece
    if piece is None:
        return None
    if isinstance(piece, Note):
        sentence = f"{piece.check} on {piece.node_id} is bad and no rule reads it: {piece.sentence}"
    else:
        sentence = "no rule recognises what was reported"
    return Match(sentence=sentence[:2_000], evidence_ids=(piece.evidence_id,))

"""Which piece is the root: by order of death on a node, by strength between nodes, and only once it is time."""

from __future__ import annotations

from judge_story import died, lost, lost_peer, raised

from fault_classifier.domain.attribution import Attributed, attribute
from fault_classifier.domain.evidence import Generation, JobEvidence, Note
from fault_classifier.domain.rule import RulePolicy
from fault_classifier.domain.rulebook import RULEBOOK


def attributed(*exits, lost_nodes=(), notes=(), overdue: bool = False) -> Attributed | None:
    generation = Generation(
        topology_version=1, exits=tuple(exits), lost=tuple(lost_nodes), notes=tuple(notes), overdue=overdue
    )
    return attribute(generation, JobEvidence(job_id="job"), RULEBOOK, RulePolicy())


def test_nothing_and_victims_are_waited_for_and_then_attributed() -> None:
    assert attributed() is None
    assert attributed(died(0, error=lost_peer())) is None
    assert attributed(notes=[Note(evidence_id="n", node_id="x", check="c", sentence="s")]) is None
    late = attributed(died(0, error=lost_peer()), overdue=True)
    assert late is not None
    assert late.root.rule.cause == "communication_error"
    nothing = attributed(overdue=True)
    assert nothing is not None
    assert (nothing.root.piece, nothing.root.rule.cause) == (None, "no_evidence")


def test_a_kill_elsewhere_explains_an_exception_and_not_the_other_way_round() -> None:
    found = attributed(died(0, error=raised()), died(4, signal=9))
    assert found is not None
    assert found.root.rule.cause == "process_killed"
    assert [each.rule.cause for each in found.others] == ["python_exception"]


def test_later_deaths_of_a_node_are_not_offered_as_causes() -> None:
    found = attributed(died(3, signal=9, ordinal=1), died(2, code=3, ordinal=0))
    assert found is not None
    assert found.root.rule.cause == "exit_code"
    assert found.others == ()


def test_of_equals_the_lower_rank_is_named_whatever_came_first() -> None:
    for order in ((died(6, signal=9), died(2, signal=9)), (died(2, signal=9), died(6, signal=9))):
        found = attributed(*order)
        assert found is not None
        assert found.root.piece is not None
        assert found.root.piece.evidence_id == "death-of-2"


def test_victims_are_listed_beside_a_lost_node() -> None:
    found = attributed(died(2, error=lost_peer()), died(0, error=lost_peer()), lost_nodes=[lost("node-7")])
    assert found is not None
    assert [each.rank for each in found.victims] == [0, 2]
    assert found.root.rule.cause == "agent_lost"

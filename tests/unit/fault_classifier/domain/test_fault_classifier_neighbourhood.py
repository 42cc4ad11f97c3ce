"""Conditions of nodes and verdicts on other jobs: remembered for a while, for the right nodes, inside of bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fault_classifier.domain.evidence import Surrounding
from fault_classifier.domain.neighbourhood import AT_ONCE, CONDITIONS_MAX, LATE, NODES_MAX, RECENT, Neighbourhood

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def bad(node: str, check: str = "gpu_ecc") -> Surrounding:
    return Surrounding(evidence_id=f"{node}-{check}", kind=check, node_id=node, sentence="bad")


def test_recent_conditions_of_the_nodes_asked_for() -> None:
    around = Neighbourhood()
    around.note_condition(bad("a"), NOON)
    around.note_condition(bad("b"), NOON)
    assert [each.node_id for each in around.around(["a", "c"], NOON)] == ["a"]
    assert around.around(["a"], NOON + RECENT + timedelta(seconds=1)) == ()
    around.clear_condition("a", "a-gpu_ecc")
    assert around.around(["a"], NOON) == ()


def test_bounds() -> None:
    around = Neighbourhood()
    for number in range(CONDITIONS_MAX + 9):
        around.note_condition(bad("a", f"check_{number}"), NOON)
    found = around.around(["a"], NOON)
    assert len(found) == CONDITIONS_MAX
    assert found[-1].kind == f"check_{CONDITIONS_MAX + 8}"
    for number in range(NODES_MAX):
        around.note_condition(bad(f"node-{number}"), NOON)
    assert around.around(["a"], NOON) == ()


def test_a_condition_soon_after_a_fault_names_the_jobs_that_it_may_explain() -> None:
    around = Neighbourhood()
    around.note_broken("job", 3, ["a"], NOON)
    around.note_broken("job", 3, ["b"], NOON)
    assert around.note_condition(bad("a"), NOON + LATE) == (("job", 3),)
    assert around.note_condition(bad("c"), NOON) == ()
    assert around.note_condition(bad("b"), NOON + LATE + timedelta(seconds=1)) == ()


def test_other_jobs_count_once_each_and_not_for_ever() -> None:
    around = Neighbourhood()
    for _ in range(3):
        around.note_verdict("other", "nfs", ["a", "b"], NOON)
    around.note_verdict("mine", "nfs", ["a"], NOON)
    same, here = around.elsewhere("mine", "nfs", ["b"], NOON)
    assert (same.kind, same.captures) == ("same_cause_in_other_jobs", {"jobs": "1", "nodes": "2"})
    assert (here.kind, here.node_id) == ("other_jobs_failed_here", "b")
    assert around.elsewhere("mine", "oom", ["z"], NOON) == ()
    assert around.elsewhere("mine", "nfs", ["b"], NOON + AT_ONCE + timedelta(seconds=1)) == ()

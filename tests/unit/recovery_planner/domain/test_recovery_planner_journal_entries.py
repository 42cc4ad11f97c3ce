"""What is told while nothing moves: bounded, and with a reason in any case."""

from planner_story import Story

from fault_contracts.recovery import RecoveryHeld
from recovery_planner.domain.checkpoint_history import CheckpointHistory
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.journal_entries import NODE_RANKS_MAX, tell_no_node
from recovery_planner.domain.placement import Placement
from recovery_planner.domain.policy import Policy


def stopped() -> Draft:
    story = Story().run()
    story.die("a", 0)
    return Draft(story.gang, now=story.now, policy=Policy(), history=CheckpointHistory())


def held(draft: Draft) -> RecoveryHeld:
    payload = draft.gang.pending[-1].payload
    assert isinstance(payload, RecoveryHeld)
    return payload


def test_a_placement_that_gives_no_reason_of_its_own_gets_one() -> None:
    draft = stopped()
    tell_no_node(draft, Placement(moves={}, unfilled=(1, 2), reasons=()))
    assert "2 places" in held(draft).reason.sentence
    assert draft.incident.notes.waits_since == draft.now


def test_more_holes_than_a_message_carries_are_cut() -> None:
    draft = stopped()
    tell_no_node(draft, Placement(moves={}, unfilled=tuple(range(5_000)), reasons=()))
    assert held(draft).node_ranks == tuple(range(NODE_RANKS_MAX))

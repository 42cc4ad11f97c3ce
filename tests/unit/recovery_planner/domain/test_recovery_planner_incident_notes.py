"""Notes are bounded, and waits are added up once."""

from datetime import UTC, datetime, timedelta

from fault_contracts.accounts import ATTEMPTS_MAX, NODES_TAKEN_MAX, NodeTaken
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.incident_notes import IncidentNotes, waited, waiting, with_level, with_taken

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_wait_counts_from_its_begin_and_several_add_up() -> None:
    notes = waiting(IncidentNotes(), NOON)
    assert waiting(notes, NOON + timedelta(seconds=5)) == notes, "it goes on"
    notes = waited(notes, NOON + timedelta(seconds=7))
    assert (notes.wait_s, notes.waits_since) == (7.0, None)
    assert waited(notes, NOON + timedelta(seconds=60)) == notes
    notes = waited(waiting(notes, NOON + timedelta(seconds=10)), NOON + timedelta(seconds=13))
    assert notes.wait_s == 10.0


def test_the_newest_levels_and_the_first_nodes_are_kept() -> None:
    notes = IncidentNotes()
    for _ in range(ATTEMPTS_MAX + 3):
        notes = with_level(notes, RecoveryLevel.PROCESS)
    notes = with_level(notes, RecoveryLevel.JOB)
    assert len(notes.levels) == ATTEMPTS_MAX
    assert notes.levels[-1] is RecoveryLevel.JOB
    many = tuple(NodeTaken(node_rank=number, node_id=f"n{number}") for number in range(NODES_TAKEN_MAX + 9))
    assert with_taken(notes, many).taken == many[:NODES_TAKEN_MAX]

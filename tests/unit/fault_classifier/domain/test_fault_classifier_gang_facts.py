"""What is said of the gang as a whole when nothing stands for itself."""

from __future__ import annotations

from judge_story import died, lost_peer

from fault_classifier.domain.evidence import Exit, Generation, Note
from fault_classifier.domain.gang_facts import facts_without_a_cause

NOTE = Note(evidence_id="n", node_id="node-0", check="xid_31", sentence="Xid 31")


def kinds(*exits: Exit, notes: tuple[Note, ...] = ()) -> list[str]:
    generation = Generation(topology_version=1, exits=exits, notes=notes)
    return [each.kind for each in facts_without_a_cause(generation, exits)]


def test_what_is_left_is_told_by_the_best_that_there_is() -> None:
    assert kinds(died(0, error=lost_peer()), died(2, signal=15)) == ["communication_error"]
    assert kinds(died(0, signal=15), notes=(NOTE,)) == ["told_to_end"]
    assert kinds(notes=(NOTE,)) == ["unread_report"]
    assert kinds() == ["nothing_reported"]


def test_deaths_that_were_only_counted_are_in_the_number() -> None:
    victim = died(0, error=lost_peer())
    generation = Generation(topology_version=1, exits=(victim,), exits_dropped=41)
    (found,) = facts_without_a_cause(generation, (victim,))
    assert "all 42 deaths" in found.text

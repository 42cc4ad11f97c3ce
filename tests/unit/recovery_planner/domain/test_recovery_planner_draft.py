"""A draft counts its effects, and knows what is worth a write."""

import pytest
from planner_story import NOON, Story

from recovery_planner.domain.checkpoint_history import CheckpointHistory
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.gang_machine import IllegalMove, Trigger
from recovery_planner.domain.policy import Policy


def draft() -> Draft:
    gang = Story().run("a", "b").gang
    return Draft(gang, now=NOON, policy=Policy(), history=CheckpointHistory(), cause_id="cause")


def test_advice_is_not_worth_a_write() -> None:
    made = draft()
    made.note_step(5)
    made.note_step(3)
    assert made.gang.step_max == 5
    assert not made.durable


def test_an_effect_is() -> None:
    made = draft()
    before = made.gang.effect_seq
    made.emit(made.explain("rule", "because"))
    assert made.durable
    assert [effect.seq for effect in made.gang.pending] == [before + 1]
    assert made.gang.pending[0].cause_id == "cause"


def test_an_illegal_move_changes_nothing() -> None:
    made = draft()
    before = made.gang
    with pytest.raises(IllegalMove):
        made.move(Trigger.PLANNED)
    assert made.gang is before
    assert made.gang.phase is Phase.RUNNING


def test_a_sentence_too_long_for_the_journal_is_cut() -> None:
    assert len(draft().explain("rule", "x" * 10_000).sentence) == 2_048

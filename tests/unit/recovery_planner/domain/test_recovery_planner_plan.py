"""Plans: level, culprit, and what the start carries."""

import pytest
from planner_story import Story

from fault_contracts.commands import StartWorkers
from fault_contracts.faults import Action
from fault_contracts.recovery import RecoveryPlanned
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.culprit import level_of
from recovery_planner.domain.member import Standing


@pytest.mark.parametrize("action", Action)
def test_every_action_has_a_level(action: Action) -> None:
    assert isinstance(level_of(action), RecoveryLevel)


def planned(story: Story, action: Action, node: str | None = None) -> RecoveryPlanned:
    story.die("a", 0)
    story.stop_all()
    story.classify(action, node=node)
    return story.last(RecoveryPlanned)


def test_blamed_node_gives_its_place_to_a_spare() -> None:
    story = Story().run("a", "b", "s1", "s2")
    plan = planned(story, Action.REPLACE_NODE, "a")
    assert story.seats() == ["s1", "b"]
    assert story.gang.members["a"].standing is Standing.CONDEMNED
    assert plan.level is RecoveryLevel.JOB
    story.start_all()
    story.lose("s1")
    story.stop("b")
    story.classify(fault_id="fault-2")
    assert story.seats() == ["s2", "b"], "the condemned node is not used again"


def test_blamed_node_is_kept_when_nobody_can_take_its_place_and_that_is_said() -> None:
    story = Story().run("a", "b")
    plan = planned(story, Action.REPLACE_NODE, "a")
    assert story.seats() == ["a", "b"]
    assert "placement.kept" in [reason.rule_id for reason in plan.reasons]


def test_no_node_is_taken_for_a_restart_of_the_job() -> None:
    story = Story().run("a", "b", "s")
    planned(story, Action.RESTART_JOB, "a")
    assert story.seats() == ["a", "b"]


def test_plan_says_what_moved_and_which_ranks() -> None:
    story = Story().run("a", "b", "s")
    story.lose("b")
    story.stop("a")
    story.classify()
    plan = story.last(RecoveryPlanned)
    assert [row.node_id for row in plan.moves] == ["s"]
    assert plan.ranks_replaced == (2, 3)
    assert plan.restarts_left == 2
    assert plan.reasons[0].rule_id == "judge.rule"


def test_store_address_is_that_of_the_new_first_node() -> None:
    story = Story()
    story.ports = {"a": 1_000, "b": 2_000, "s": 3_000}
    story.run("a", "b", "s")
    assert story.last(StartWorkers).master_port == 1_000
    story.lose("a")
    story.stop("b")
    story.classify()
    start = story.last(StartWorkers)
    assert (start.master_addr, start.master_port) == ("s.example", 3_000)


def test_restart_count_goes_up_over_incidents() -> None:
    story = Story().run("a", "b")
    story.recover()
    story.recover()
    assert story.last(StartWorkers).restart_count == 2

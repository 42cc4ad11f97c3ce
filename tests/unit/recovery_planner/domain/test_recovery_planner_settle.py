"""The order in which reports come does not matter to where a gang comes to rest."""

from itertools import permutations

import pytest
from planner_story import Story

from fault_contracts.commands import StartWorkers
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.step import DeadlineExpired


@pytest.mark.parametrize("order", list(permutations(["death", "stop a", "stop b", "verdict"]))[:24])
def test_any_order_of_stops_and_verdict(order: tuple[str, ...]) -> None:
    story = Story().run("a", "b")
    story.die("b", 3)
    for turn in order:
        match turn:
            case "death":
                story.die("a", 0, version=1)
            case "verdict":
                story.classify(version=1)
            case _:
                story.stop(turn[-1])
    assert story.gang.phase is Phase.STARTING
    assert story.versions_started() == [1, 2]


def test_start_deadline_is_lifted_when_all_run() -> None:
    story = Story().run("a", "b")
    story.make_step("a", 1)
    story.recover()
    assert story.gang.phase is Phase.STARTING
    assert story.gang.deadline_at is None, "a first step may take as long as it takes"


def test_nothing_is_due_before_its_time() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.wait(story.policy.stop_margin_s)
    story.feed(DeadlineExpired())
    assert story.gang.phase is Phase.STOPPING
    story.wait_for_deadline()
    assert story.gang.phase is Phase.DECIDING


def test_one_event_may_move_a_gang_through_several_phases() -> None:
    story = Story(nnodes=1).run("a", "s")
    story.classify()
    story.lose("a")
    assert story.gang.phase is Phase.STARTING
    assert len(story.all(StartWorkers)) == 2

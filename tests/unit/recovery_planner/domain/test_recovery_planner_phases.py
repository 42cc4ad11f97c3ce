"""Phase times are sums over the attempts and never negative."""

from datetime import timedelta

import pytest
from planner_story import NOON, Story

from fault_contracts.recovery import IncidentClosed
from recovery_planner.domain import phases


def test_clocks_that_disagree_give_zero() -> None:
    assert phases.elapsed_s(NOON, NOON - timedelta(seconds=3)) == 0.0
    assert phases.elapsed_s(NOON, NOON + timedelta(seconds=3)) == 3.0


def test_two_attempts_are_added_up() -> None:
    story = Story().run("a", "b")
    for turn in range(2):
        story.die("a", 0)
        story.wait(1)
        story.stop_all()
        story.wait(0.5)
        story.classify(fault_id=f"fault-{turn}")
        story.wait(2)
        story.start("b")
    story.start("a")
    closed = story.last(IncidentClosed).phases
    assert closed.stop_s == pytest.approx(2)
    assert closed.plan_s == pytest.approx(1)
    assert closed.start_s == pytest.approx(4)
    assert closed.total_s == pytest.approx(7)
    assert closed.first_step_s is None, "no rank reports steps"
    assert closed.steps_lost is None, "unknown is not zero"


def test_detection_counts_from_the_death_as_the_agent_saw_it() -> None:
    story = Story().run("a", "b")
    story.die("a", 0, ago_s=0.25)
    story.stop_all()
    story.classify()
    story.start_all()
    assert story.last(IncidentClosed).phases.detect_s == pytest.approx(0.25)
    assert story.last(IncidentClosed).phases.total_s == pytest.approx(0.25)


def test_the_earlier_of_two_deaths_is_the_fault() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.die("b", 2, ago_s=1)
    assert story.gang.incident is not None
    assert story.gang.incident.fault_observed_at == story.now - timedelta(seconds=1)


def test_steps_lost_without_a_checkpoint_is_everything() -> None:
    story = Story().run("a", "b")
    story.make_step("a", 1)
    story.make_step("b", 1)
    story.make_step("b", 41, first=False)
    story.recover()
    story.make_step("a", 1)
    story.make_step("b", 1)
    assert story.last(IncidentClosed).phases.steps_lost == 41

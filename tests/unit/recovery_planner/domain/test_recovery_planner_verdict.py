"""Verdicts: which one counts, and what a late one does."""

import pytest
from planner_story import Story

from fault_contracts.commands import StopWorkers
from fault_contracts.faults import Action, Attribution
from fault_contracts.recovery import IncidentOpened, JobEnded, JobOutcome
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.incident import Verdict
from recovery_planner.domain.verdict import SEVERITY, outweighs


def test_every_action_has_its_weight() -> None:
    assert set(SEVERITY) == set(Action)
    assert len(set(SEVERITY.values())) == len(SEVERITY)


def test_verdict_that_outruns_the_death_opens_the_incident() -> None:
    story = Story().run("a", "b")
    story.classify()
    assert story.gang.phase is Phase.STOPPING
    story.die("a", 0)
    story.stop_all()
    assert story.gang.phase is Phase.STARTING, "the verdict was there already"
    assert len(story.all(IncidentOpened)) == len(story.all(StopWorkers)) == 1


def test_verdict_that_asks_to_wait_stops_nothing() -> None:
    story = Story().run("a", "b")
    story.classify(Action.WAIT_OR_IGNORE)
    assert story.gang.phase is Phase.RUNNING


def test_verdict_about_an_older_generation_is_stale() -> None:
    story = Story().run("a", "b")
    story.recover()
    story.classify(Action.DONT_RETRY_NOTIFY_USER, version=1, fault_id="late")
    assert story.gang.phase is Phase.RUNNING


def test_late_user_verdict_ends_a_job_that_is_starting_again() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.wait_for_deadline()
    assert story.gang.phase is Phase.STARTING
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    assert story.last(JobEnded).outcome is JobOutcome.FAILED_USER


def test_late_harmless_verdict_changes_only_what_is_known() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.wait_for_deadline()
    story.classify()
    assert story.gang.phase is Phase.STARTING
    assert story.gang.incident is not None
    assert story.gang.incident.verdict is not None


def test_provisional_verdict_does_not_decide_before_the_deadline() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.classify(provisional=True)
    assert story.gang.phase is Phase.DECIDING
    story.wait_for_deadline()
    assert story.gang.phase is Phase.STARTING


def test_verdict_that_replaces_another_by_name_counts_although_it_is_milder() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.classify(Action.DONT_RETRY_NOTIFY_USER, fault_id="hasty")
    story.classify(Action.RESTART_PROCESS, fault_id="better", supersedes="hasty")
    story.stop_all()
    assert story.gang.phase is Phase.STARTING


def verdict(action: Action, *, provisional: bool = False) -> Verdict:
    return Verdict(
        fault_id=str(action),
        topology_version=1,
        attribution=Attribution.UNKNOWN,
        cause="c",
        action=action,
        reasons=(),
        provisional=provisional,
    )


@pytest.mark.parametrize(
    ("new", "old", "wins"),
    [
        (verdict(Action.RESTART_PROCESS), None, True),
        (verdict(Action.REPLACE_NODE), verdict(Action.RESTART_PROCESS), True),
        (verdict(Action.RESTART_PROCESS), verdict(Action.REPLACE_NODE), False),
        (verdict(Action.RESTART_PROCESS), verdict(Action.RESTART_PROCESS), False),
        (verdict(Action.WAIT_OR_IGNORE), verdict(Action.REPLACE_NODE, provisional=True), True),
        (verdict(Action.REPLACE_NODE, provisional=True), verdict(Action.RESTART_PROCESS), False),
    ],
)
def test_the_graver_one_counts(new: Verdict, old: Verdict | None, wins: bool) -> None:
    assert outweighs(new, old, supersedes=None) is wins


def test_a_provisional_word_ends_no_job_and_gives_up_no_node_even_when_the_wait_is_over() -> None:
    for action in (Action.DONT_RETRY_NOTIFY_USER, Action.REPLACE_NODE):
        story = Story().run("a", "b")
        story.report("spare")
        story.die("a", 0)
        story.stop_all()
        story.classify(action, node="a", provisional=True)
        assert story.gang.phase is Phase.DECIDING
        story.wait_for_deadline()
        assert story.gang.phase is Phase.STARTING
        assert set(story.gang.nodes) == {"a", "b"}


def test_a_provisional_word_in_a_starting_gang_ends_no_job() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.wait_for_deadline()
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER, provisional=True)
    assert story.gang.phase is Phase.STARTING
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER, fault_id="final", supersedes="fault-1")
    assert story.last(JobEnded).outcome is JobOutcome.FAILED_USER


def test_the_final_word_decides_at_once() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER, provisional=True)
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER, fault_id="final", supersedes="fault-1")
    assert story.last(JobEnded).outcome is JobOutcome.FAILED_USER

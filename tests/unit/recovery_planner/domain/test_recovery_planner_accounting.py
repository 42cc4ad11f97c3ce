"""What incidents and jobs cost, told by a whole story: every figure by hand."""

import pytest
from planner_story import Story

from fault_contracts.accounts import IncidentAccount, JobAccount
from fault_contracts.faults import Action, Attribution
from fault_contracts.policy import Backoff, RecoveryPolicy
from fault_contracts.recovery import (
    AttemptOpened,
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    JournalEntry,
    RecoveryHeld,
    RecoveryPlanned,
    TrainingResumed,
)
from recovery_planner.domain.accounting import account_until


def bill(story: Story) -> IncidentAccount:
    account = story.last(IncidentClosed).account
    assert account is not None
    return account


def total(story: Story) -> JobAccount:
    account = story.last(JobEnded).account
    assert account is not None
    return account


def trained() -> Story:
    """Two nodes, four ranks: 10 s until all are there, then step 1 at once and step 101 after 100 s, saved at 90."""
    story = Story()
    story.report("a")
    story.wait(10)
    story.report("b")
    story.start_all()
    for step, first in ((1, True), (101, False)):
        for node in ("a", "b"):
            story.make_step(node, step, first=first)
        story.wait(100)
    story.checkpoint(90, 0, 1, 2, 3)
    return story


def broken_and_back(story: Story) -> None:
    story.die("a", 0, step=101, ago_s=1.0)
    story.wait(2)
    story.stop_all()
    story.wait(3)
    story.classify(Action.RESTART_PROCESS)
    story.start_all()
    story.wait(4)
    for node in story.gang.nodes:
        story.make_step(node, 91)


def test_an_incident_costs_its_standstill_and_the_steps_that_are_done_again() -> None:
    story = trained()
    broken_and_back(story)
    account = bill(story)
    assert account.down_s == 1 + 2 + 3 + 4
    assert account.down_gpu_s == 10 * 4
    assert (account.steps_redone, account.step_s) == (11, 1.0)
    assert account.redone_gpu_s == 11 * 1.0 * 4
    assert (account.ranks, account.ranks_after, account.planned) == (4, 4, False)
    assert [fault.cause for fault in account.faults] == ["process_killed"]
    assert [str(level) for level in account.levels] == ["process"]
    assert story.last(TrainingResumed).step == 91, "not the step that was reached before"


def test_a_generation_loses_what_it_did_itself_and_not_what_an_earlier_one_lost() -> None:
    story = trained()
    broken_and_back(story)
    story.wait(5)
    story.make_step("a", 95, first=False)
    story.die("b", 2)
    story.stop_all()
    story.classify(fault_id="fault-2")
    story.start_all()
    for node in story.gang.nodes:
        story.make_step(node, 91)
    assert bill(story).steps_redone == 5


def test_a_generation_that_never_finished_a_step_loses_none() -> None:
    story = trained()
    broken_and_back(story)
    story.die("a", 0)
    story.stop_all()
    story.classify(fault_id="fault-2")
    story.start_all()
    story.die("a", 0)  # before its first step: the same incident
    story.stop_all()
    story.classify(fault_id="fault-3")
    story.start_all()
    for node in story.gang.nodes:
        story.make_step(node, 91)
    assert story.last(IncidentClosed).attempts == 2
    assert bill(story).steps_redone == 1
    assert [fault.fault_id for fault in bill(story).faults] == ["fault-2", "fault-3"]


def test_the_books_of_the_job_add_up() -> None:
    story = trained()
    broken_and_back(story)
    story.wait(89)
    for node in story.gang.nodes:
        story.complete(node)
    account = total(story)
    assert (account.waiting_s, account.training_s, account.down_s) == (10.0, 199.0 + 89.0, 10.0)
    assert account.waiting_s + account.training_s + account.down_s == (account.until - account.since).total_seconds()
    assert account.waiting_gpu_s == 10 * 2, "one of two nodes was there"
    assert account.training_gpu_s == (199 + 89) * 4
    assert account.redone_gpu_s == 11 * 4
    assert (account.incidents, account.unpriced, account.steps, account.steps_redone) == (1, 0, 101, 11)
    assert account.best_step_s == 1.0
    assert account.ettr == pytest.approx((288 - 11) / 308)
    assert account.goodput == pytest.approx((288 - 11) * 4 / (10 * 2 + 298 * 4))
    [cost] = account.causes
    assert (cost.attribution, cost.cause, cost.incidents) == (Attribution.PLATFORM, "process_killed", 1)
    assert (cost.down_gpu_s, cost.redone_gpu_s) == (40.0, 44.0)


def test_the_account_of_a_running_job_is_the_one_it_would_end_with() -> None:
    story = trained()
    so_far = account_until(story.gang, story.now)
    for node in story.gang.nodes:
        story.complete(node)
    assert so_far == total(story)


def test_spares_are_paid_and_a_taken_place_names_both_nodes() -> None:
    story = Story().run("a", "b", "c")
    story.wait(50)
    story.lose("b")
    story.stop_all()
    story.classify()
    story.start_all()
    [taken] = bill(story).nodes_taken
    assert (taken.node_rank, taken.node_id, taken.from_node_id) == (1, "c", "b")
    assert "lost" in taken.because
    story.wait(10)
    for node in story.gang.nodes:
        story.complete(node)
    assert total(story).spare_gpu_s == 50 * 2
    assert total(story).causes[0].nodes_taken == 1


def test_a_node_that_gives_its_place_up_is_told_with_what_it_is_blamed_for() -> None:
    story = Story().run("a", "b", "c")
    story.die("b", 2)
    story.stop_all()
    story.classify(Action.REPLACE_NODE, attribution=Attribution.HARDWARE, node="b")
    story.start_all()
    [taken] = bill(story).nodes_taken
    assert taken.because == "process_killed is blamed on it"


def test_without_steps_redone_work_has_no_price_and_that_is_said() -> None:
    story = Story().run()
    story.recover()
    assert (bill(story).steps_redone, bill(story).redone_gpu_s) == (None, None)
    assert account_until(story.gang, story.now).unpriced == 1


def test_a_job_that_is_given_up_goes_on_with_no_ranks() -> None:
    story = trained()
    story.die("a", 0)
    story.wait(5)
    story.stop_all()
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    assert (bill(story).ranks, bill(story).ranks_after, bill(story).levels) == (4, 0, ())
    assert total(story).down_s == 5.0


def test_a_wait_for_a_node_is_told_with_its_places_and_is_part_of_planning() -> None:
    story = Story().run()
    story.lose("b")
    story.stop_all()
    story.classify()
    held = story.last(RecoveryHeld)
    assert (held.waits_for, held.node_ranks, held.until) == ("capacity", (1,), story.gang.deadline_at)
    assert held.reason.rule_id == "placement.no_spare"
    story.wait(30)
    story.report("c")
    story.start_all()
    phases = story.last(IncidentClosed).phases
    assert phases.wait_s == 30.0
    assert phases.plan_s is not None
    assert phases.plan_s >= 30.0
    assert len(story.all(RecoveryHeld)) == 1


def test_a_backoff_is_told_with_its_end() -> None:
    story = Story(recovery=RecoveryPolicy(backoff=Backoff(first_s=20.0))).run()
    story.recover()  # waits out its backoff only when time passes
    held = story.last(RecoveryHeld)
    assert (held.waits_for, held.reason.rule_id) == ("backoff", "policy.backoff")
    assert held.until == story.gang.deadline_at
    story.wait_for_deadline()
    story.start_all()
    assert story.last(IncidentClosed).phases.wait_s == 20.0


def test_a_generation_that_breaks_before_it_trains_is_another_attempt_and_is_told() -> None:
    story = Story().run()
    story.die("a", 0)
    story.stop_all()
    story.classify()
    story.die("b", 3)
    told = story.last(AttemptOpened)
    assert (told.attempt, told.topology_version, told.node_id, told.rank) == (2, 2, "b", 3)
    assert told.incident_id == story.last(IncidentOpened).incident_id
    assert len(story.all(IncidentOpened)) == 1


def test_the_journal_is_numbered_without_gaps_and_anew_for_a_new_run() -> None:
    story = Story().run()
    story.recover()
    story.recover()
    entries = [each.entry for each in story.published if isinstance(each, JournalEntry)]
    assert entries == list(range(1, len(entries) + 1))
    assert story.last(RecoveryPlanned).verdict is not None
    for node in story.gang.nodes:
        story.complete(node)
    story.wait(60)
    story.instances = {"a": 2, "b": 2}
    before = len(story.published)
    story.report("a")
    story.report("b")
    assert [each.entry for each in story.published[before:] if isinstance(each, JournalEntry)] == [1]
    assert account_until(story.gang, story.now).incidents == 0

"""The end is said once, repeated to who missed it, and never to a new run."""

from dataclasses import replace
from datetime import timedelta

from planner_story import Story

from fault_contracts.agent import AgentPhase
from fault_contracts.commands import EndJob
from fault_contracts.faults import Action, Attribution
from fault_contracts.recovery import IncidentClosed, JobEnded, JobOutcome
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.step import DeadlineExpired


def ended() -> Story:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    assert story.gang.phase is Phase.ENDED
    return story


def test_end_comes_first_then_the_incident_then_the_job() -> None:
    assert ended().kinds()[-3:] == ["EndJob", "IncidentClosed", "JobEnded"]
    assert ended().last(IncidentClosed).attribution is Attribution.USER


def test_success_in_the_middle_of_a_recovery_closes_the_incident_well() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.classify()
    story.complete("a")
    story.complete("b")
    assert story.last(IncidentClosed).outcome == "recovered"
    assert story.last(JobEnded).outcome is JobOutcome.SUCCEEDED


def test_agent_that_missed_the_end_is_told_again_with_the_same_order() -> None:
    story = ended()
    story.wait(10)
    story.report("a")
    first, second = story.all(EndJob)
    assert second.operation_id == first.operation_id, "who obeyed the first one sees a repeat"
    assert second.fence == first.fence
    assert second.expires_at > first.expires_at


def test_it_is_not_repeated_to_everybody_who_reports_while_leaving() -> None:
    story = ended()
    story.wait(0.1)
    story.report("a", phase=AgentPhase.SHUTDOWN)
    story.report("b")
    assert len(story.all(EndJob)) == 1


def test_a_new_run_of_the_same_job_goes_on_with_higher_versions() -> None:
    story = ended()
    version, seq = story.gang.table.topology_version, story.gang.effect_seq
    story.wait(60)
    story.instances = {"a": 2, "b": 2}
    story.report("a")
    assert story.gang.phase is Phase.FORMING
    story.report("b")
    assert story.gang.phase is Phase.STARTING
    assert story.gang.table.topology_version == version + 1
    assert story.gang.effect_seq > seq
    assert story.gang.restart_count == 0
    assert story.gang.starts[-1].step == -1


def test_who_comes_with_a_clock_that_is_behind_is_told_of_the_end() -> None:
    """Its report says that it came before the end; it is there all the same, and would wait for ever."""
    story = ended()
    story.wait(10)
    now = story.now
    story.now = now.replace(hour=11)
    late = story.reported("c")
    story.now = now
    story.feed(late)
    assert len(story.all(EndJob)) == 2


def test_a_report_from_before_the_end_begins_no_new_run() -> None:
    story = ended()
    end = story.now
    story.now = end.replace(hour=11)
    late = story.reported("c")
    story.now = end
    story.feed(late)
    assert story.gang.phase is Phase.ENDED


def come_late(story: Story, node: str, *, behind_s: float = 3_600) -> None:
    """A new agent whose clock says that it came before the end."""
    now = story.now
    story.now = now - timedelta(seconds=behind_s)
    report = story.reported(node)
    story.now = now
    story.feed(report)


def test_who_comes_too_soon_for_another_end_gets_it_when_the_pause_is_over() -> None:
    """It asks once. With nobody else asking it would wait for ever."""
    story = ended()
    end = story.now
    story.wait(1)
    come_late(story, "c")
    assert len(story.all(EndJob)) == 1
    story.wait_for_deadline()
    first, second = story.all(EndJob)
    assert story.now - end == timedelta(seconds=story.policy.end_repeat_s)
    assert (second.operation_id, second.fence) == (first.operation_id, first.fence)
    assert story.gang.deadline_at is None, "and then there is quiet"


def test_many_who_ask_at_once_are_answered_by_one_end() -> None:
    story = ended()
    for node in "cdefgh":
        story.wait(0.5)
        come_late(story, node)
    story.wait_for_deadline()
    assert len(story.all(EndJob)) == 2
    come_late(story, "i")
    story.wait_for_deadline()
    assert len(story.all(EndJob)) == 3, "whoever asks after that one gets another"


def test_nobody_waits_longer_because_another_leader_had_a_clock_that_is_ahead() -> None:
    story = ended()
    assert story.state is not None
    assert story.state.ending is not None
    ahead = replace(story.state.ending, told_at=story.now + timedelta(hours=1))
    story.state = replace(story.state, ending=ahead)
    come_late(story, "c")
    story.wait(story.policy.end_repeat_s)
    story.feed(DeadlineExpired())
    assert len(story.all(EndJob)) == 2


def test_an_end_that_is_owed_does_not_reach_a_new_run() -> None:
    story = ended()
    story.wait(1)
    come_late(story, "c")
    story.wait(1)
    story.report("d")
    assert story.gang.phase is Phase.FORMING
    story.wait(60)
    story.feed(DeadlineExpired())
    assert len(story.all(EndJob)) == 1


def test_who_got_an_order_too_late_is_told_of_the_end() -> None:
    """It stood still while the end was valid: its refusal says that it is there."""
    story = ended()
    story.wait(60)
    story.refuse("a", story.last(EndJob), "expired")
    assert len(story.all(EndJob)) == 2
    story.wait(60)
    story.refuse("a", story.last(EndJob), "stale")
    assert len(story.all(EndJob)) == 2

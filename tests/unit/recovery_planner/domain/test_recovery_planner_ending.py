"""The end is said once, repeated to who missed it, and never to a new run."""

from planner_story import Story

from fault_contracts.agent import AgentPhase
from fault_contracts.commands import EndJob
from fault_contracts.faults import Action, Attribution
from fault_contracts.recovery import IncidentClosed, JobEnded, JobOutcome
from recovery_planner.domain.gang import Phase


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

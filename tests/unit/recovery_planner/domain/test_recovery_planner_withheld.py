"""What an observing job is spared is said once, whatever is delivered again."""

from datetime import timedelta

from planner_story import Story

from fault_contracts.policy import PolicyMode, RecoveryPolicy
from fault_contracts.recovery import ActionWithheld, IncidentClosed, JobEnded, TrainingResumed
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.step import DeadlineExpired
from recovery_planner.domain.withheld import WITHHELD_MAX, observes


def observing() -> Story:
    return Story(recovery=RecoveryPolicy(mode=PolicyMode.OBSERVE)).run("a", "b")


def test_a_job_observes_only_when_its_policy_says_so() -> None:
    assert observes(observing().gang)
    assert not observes(Story(recovery=RecoveryPolicy()).run("a", "b").gang)
    assert not observes(Story().run("a", "b").gang)


def test_the_same_report_again_says_nothing_again() -> None:
    story = observing()
    story.hang("a", 0)
    story.hang("a", 0)
    assert len(story.all(ActionWithheld)) == 1


def test_another_node_is_another_finding() -> None:
    story = observing()
    story.hang("a", 0)
    story.hang("b", 2)
    assert [each.node_id for each in story.all(ActionWithheld)] == ["a", "b"]


def test_what_is_remembered_is_bounded() -> None:
    story = observing()
    for number in range(WITHHELD_MAX + 5):
        story.hang("a", 0, check=f"check_{number}")
    assert len(story.gang.withheld) == WITHHELD_MAX


def restarting(**policy: float) -> Story:
    """An observing job that told steps, lost a rank, and starts again."""
    recovery = RecoveryPolicy.model_validate({"mode": "observe", **policy})
    story = Story(recovery=recovery).run("a", "b")
    story.make_step("a", 5)
    story.make_step("b", 5)
    story.die("a", 0)
    story.stop_all()
    story.classify()
    assert story.gang.phase is Phase.STARTING
    return story


def test_ranks_that_hang_before_their_first_step_close_the_incident() -> None:
    """Nobody will stop them: what this job wants done is done, and no step may ever come."""
    story = restarting()
    story.start_all()
    assert story.gang.phase is Phase.STARTING, "it waits for the first step"
    story.hang("a", 0)
    assert story.last(ActionWithheld).incident_id == story.last(IncidentClosed).incident_id
    assert story.last(IncidentClosed).outcome == "failed"
    assert story.last(IncidentClosed).reason.rule_id == "observe.let_be"
    assert story.all(TrainingResumed) == []
    assert story.gang.phase is Phase.RUNNING
    story.make_step("a", 6)  # a false alarm after all
    assert story.gang.phase is Phase.RUNNING


def test_the_incident_is_open_until_every_node_has_started() -> None:
    story = restarting()
    story.start("a")
    story.hang("a", 0)
    assert story.all(IncidentClosed) == []
    story.start("b")
    assert story.last(IncidentClosed).outcome == "failed"


def test_a_rank_that_dies_meanwhile_is_the_next_attempt_and_that_one_may_do_well() -> None:
    story = restarting()
    story.start("a")
    story.hang("a", 0)
    story.die("a", 0)
    story.stop_all()
    story.classify(fault_id="fault-2")
    story.start_all()
    assert story.all(IncidentClosed) == []
    story.make_step("a", 6)
    story.make_step("b", 6)
    assert story.last(IncidentClosed).outcome == "recovered"


def test_a_limit_for_faults_ends_the_job_instead() -> None:
    story = restarting(fault_deadline_s=300)
    story.start_all()
    story.hang("a", 0)
    assert story.all(IncidentClosed) == []
    story.now += timedelta(seconds=301)
    story.feed(DeadlineExpired())
    assert len(story.all(JobEnded)) == 1


def test_a_job_that_acts_restarts_instead() -> None:
    story = Story().run("a", "b")
    story.make_step("a", 5)
    story.make_step("b", 5)
    story.die("a", 0)
    story.stop_all()
    story.classify()
    story.start_all()
    story.hang("a", 0)
    assert story.gang.phase is Phase.STOPPING
    assert story.all(IncidentClosed) == []

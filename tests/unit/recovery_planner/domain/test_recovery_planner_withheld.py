"""What an observing job is spared is said once, whatever is delivered again."""

from planner_story import Story

from fault_contracts.policy import PolicyMode, RecoveryPolicy
from fault_contracts.recovery import ActionWithheld
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

"""A node that broke this job again and again gets no place in it; one that could not be replaced keeps its own."""

from faulty_story import FaultyStory

from fault_contracts.faults import Attribution
from fault_contracts.policy import PolicyMode, RecoveryPolicy, RepeatOffenderPolicy
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.member import Standing

TWICE = RecoveryPolicy(repeat_offender=RepeatOffenderPolicy(faults=2, window_s=600))


def faults(story: FaultyStory, node: str, number: int, attribution: Attribution = Attribution.HARDWARE) -> None:
    """A rank of the node dies, and the verdict blames the node without asking for an action on it."""
    rank = 2 * story.seats().index(node)
    story.die(node, rank)
    story.stop_all()
    story.classify(node=node, attribution=attribution, fault_id=f"fault-{number}")
    if story.gang.phase is Phase.STARTING:
        story.start_all()


def begun(policy: RecoveryPolicy | None, *nodes: str) -> FaultyStory:
    story = FaultyStory(nnodes=2, recovery=policy, restarts_max=50)
    story.run(*nodes)
    return story


def test_the_second_offence_costs_the_place() -> None:
    story = begun(TWICE, "a", "b", "s")
    faults(story, "b", 1)
    assert story.seats() == ["a", "b"]
    faults(story, "b", 2)
    assert story.seats() == ["a", "s"]
    assert story.member("b").standing is Standing.CONDEMNED
    assert "placement.condemned" in story.rules


def test_without_the_rule_it_keeps_its_place() -> None:
    story = begun(None, "a", "b", "s")
    for number in range(3):
        faults(story, "b", number)
    assert story.seats() == ["a", "b"]


def test_offences_that_left_the_window_count_no_more() -> None:
    story = begun(TWICE, "a", "b", "s")
    faults(story, "b", 1)
    story.wait(601)
    faults(story, "b", 2)
    assert story.seats() == ["a", "b"]


def test_a_users_fault_is_no_offence_and_other_nodes_are_counted_apart() -> None:
    story = begun(TWICE, "a", "b", "s")
    faults(story, "b", 1, Attribution.USER)
    faults(story, "b", 2)
    faults(story, "a", 3)
    assert story.seats() == ["a", "b"]


def test_nobody_to_take_its_place() -> None:
    story = begun(TWICE, "a", "b")
    faults(story, "b", 1)
    faults(story, "b", 2)
    assert story.seats() == ["a", "b"]
    assert "placement.kept" in story.rules


def test_an_offender_that_comes_back_as_a_spare_is_not_taken() -> None:
    story = begun(TWICE, "a", "b", "s")
    faults(story, "b", 1)
    faults(story, "b", 2)
    story.know("b", held="remediating", tended=True)
    story.know("b")
    assert story.member("b").standing is Standing.PRESENT, "repaired"
    story.die("s", 2)
    story.lose("s")
    story.stop_all()
    story.classify(fault_id="fault-3")
    assert story.gang.phase is Phase.WAITING
    assert "placement.offender" in story.rules


def test_a_job_that_only_observes_bars_nobody() -> None:
    policy = TWICE.model_copy(update={"mode": PolicyMode.OBSERVE})
    story = begun(policy, "a", "b", "s")
    for number in range(3):
        faults(story, "b", number)
    assert story.seats() == ["a", "b"]

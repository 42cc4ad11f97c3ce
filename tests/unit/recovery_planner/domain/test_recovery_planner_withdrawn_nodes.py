"""An operator empties a node: the job stops after its next checkpoint, goes on elsewhere, and pays nothing for it."""

from notice_story import NoticeStory

from fault_contracts.preemption import RequestCheckpoint
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.member import Standing
from recovery_planner.domain.step import DeadlineExpired


def running(*spares: str) -> NoticeStory:
    story = NoticeStory(nnodes=2)
    story.run("a", "b", *spares)
    return story


def time_passes(story: NoticeStory, seconds: float) -> None:
    assert story.gang.alarm_at is not None
    story.wait(seconds)
    story.feed(DeadlineExpired())


def moved(story: NoticeStory) -> None:
    story.stop_all()
    story.start_all()


def test_the_next_checkpoint_is_the_moment_to_stop() -> None:
    story = running("s")
    story.confirm(10, 0, 1, 2, 3)
    story.withdraw("b")
    assert story.gang.phase is Phase.RUNNING
    assert story.all(RequestCheckpoint) == [], "the job saves by itself"
    story.confirm(20, 0, 1, 2, 3)
    assert story.gang.phase is Phase.STOPPING
    moved(story)
    assert story.seats() == ["a", "s"]
    assert story.gang.restarts == ()
    assert story.gang.starts[-1].step == 20


def test_without_a_checkpoint_the_deadline_stops_it() -> None:
    story = running("s")
    story.withdraw("b", within_s=60)
    time_passes(story, 61)
    assert story.gang.phase is Phase.STOPPING
    moved(story)
    assert story.seats() == ["a", "s"]


def test_the_node_may_come_back_to_the_job() -> None:
    story = running("s")
    story.withdraw("b", within_s=60)
    time_passes(story, 61)
    moved(story)
    assert story.gang.members["b"].standing is Standing.CONDEMNED
    story.fits["b"] = type(story.fits["b"])()
    story.report("b")
    assert story.gang.members["b"].standing is Standing.PRESENT


def test_two_nodes_are_emptied_with_one_stop() -> None:
    story = running("s", "t")
    story.withdraw("a", within_s=60)
    story.withdraw("b", within_s=30)
    assert story.gang.preemption is not None
    assert story.gang.preemption.nodes == {"a", "b"}
    time_passes(story, 61)
    moved(story)
    assert story.seats() == ["s", "t"]


def test_a_spare_that_is_emptied_stops_nothing() -> None:
    story = running("s")
    story.withdraw("s")
    assert story.gang.preemption is None
    assert story.gang.phase is Phase.RUNNING

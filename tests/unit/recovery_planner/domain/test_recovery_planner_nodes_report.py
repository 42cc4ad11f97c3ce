"""Reports of many nodes that are taken in at once leave what they leave one by one."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from planner_story import Story

from recovery_planner.domain.gang import Phase
from recovery_planner.domain.invariants import assert_holds
from recovery_planner.domain.nodes_report import NodesReport
from recovery_planner.domain.step import Event, Step, step_together

NODES = ("a", "b", "c", "d")


class GatheringStory(Story):
    """Keeps reports back while it is told to, and hands them in together."""

    kept: list[NodesReport] | None = None

    def feed(self, event: Event) -> Step:
        if self.kept is None or not isinstance(event, NodesReport):
            return super().feed(event)
        self.kept.append(event)
        return Step(gang=self.gang, reasons=(), durable=False, ignored=False)

    def together(self, tell: Callable[[], object]) -> Step:
        """Everything that `tell` reports, at once, and once more as a redelivery."""
        self.kept = []
        tell()
        told, self.kept = self.kept, None
        result = self._fold(told)
        again = self._fold(told)
        assert (again.gang, again.durable) == (result.gang, False), "repeated reports changed the record"
        return result

    def _fold(self, told: list[NodesReport]) -> Step:
        result = step_together(
            self.gang, told, now=self.now, policy=self.policy, history=self.history, cause_id="cause"
        )
        assert_holds(result.gang)
        self.published += [effect.payload for effect in result.gang.pending]
        self.state = replace(result.gang, pending=())
        return replace(result, gang=self.state)


def at_once(story: Story, tell: Callable[[], object]) -> None:
    if isinstance(story, GatheringStory):
        story.together(tell)
    else:
        tell()


def recovered(story: Story) -> Story:
    story.run(*NODES, "s")
    story.die("b", 2)
    at_once(story, lambda: [story.stop(node, at_barrier=(0, 2, 3, 4)) for node in NODES])
    story.classify()
    at_once(story, lambda: [story.start(node) for node in story.seats()])
    at_once(story, lambda: [story.make_step(node, 7) for node in story.seats()])
    assert story.gang.phase is Phase.RUNNING
    return story


def test_a_recovery_ends_in_the_same_record_and_publishes_the_same() -> None:
    one, many = recovered(Story(nnodes=4)), recovered(GatheringStory(nnodes=4))
    assert one.gang == many.gang
    assert one.published == many.published


def test_the_end_of_all_nodes_is_the_end_of_the_job() -> None:
    story = cast(GatheringStory, recovered(GatheringStory(nnodes=4)))
    story.together(lambda: [story.complete(node) for node in story.seats()])
    assert story.gang.phase is Phase.ENDED


def test_sets_of_the_record_stay_immutable() -> None:
    gang = recovered(GatheringStory(nnodes=4)).gang
    for kept in (gang.stopped, gang.started, gang.completed, gang.stepped, gang.stepping):
        assert type(kept) is frozenset


def test_a_stale_report_among_others_is_ignored_alone() -> None:
    story = GatheringStory(nnodes=4).run(*NODES)
    assert isinstance(story, GatheringStory)
    story.die("a", 0)
    old = replace_order(story, "b")
    result = story.together(lambda: [story.stop("a"), story.feed(old), story.stop("c")])
    assert result.ignored
    assert [reason.rule_id for reason in result.reasons] == ["report.stale"]
    assert story.gang.stopped == {"a", "c"}
    assert story.gang.phase is Phase.STOPPING


def replace_order(story: GatheringStory, node: str) -> NodesReport:
    story.kept = []
    story.stop(node)
    (told,), story.kept = story.kept, None
    return told.model_copy(update={"operation_id": "another"})


def test_of_two_reports_of_one_node_the_later_counts() -> None:
    story = GatheringStory(nnodes=4).run(*NODES)
    assert isinstance(story, GatheringStory)
    story.die("a", 0)
    story.together(lambda: [story.stop("c"), story.stop("c")])
    assert story.gang.members["c"].master_port == story.ports["c"]


def test_a_node_that_was_left_behind_and_answers_with_others_is_back() -> None:
    story = GatheringStory(nnodes=4).run(*NODES)
    assert isinstance(story, GatheringStory)
    story.die("a", 0)
    for node in NODES[:3]:
        story.stop(node)
    story.wait_for_deadline()
    assert not story.gang.is_present("d")
    story.together(lambda: [story.stop("a"), story.stop("d")])
    assert story.gang.is_present("d")

"""The order to start: what is a change to what, and why the ranks before these ended."""

from planner_story import Story

from fault_contracts.commands import StartWorkers


def test_the_first_start_carries_the_whole_table_and_no_reason() -> None:
    story = Story().run("a", "b")
    start = story.last(StartWorkers)
    assert (start.base_version, len(start.rows), start.nnodes, start.world_size) == (0, 2, 2, 4)
    assert start.reason is None


def test_a_later_start_is_a_change_to_the_table_that_all_agents_hold() -> None:
    story = Story().run("a", "b", "s")
    story.recover()
    story.lose("b")
    story.stop_all()
    story.classify(fault_id="fault-2")
    start = story.last(StartWorkers)
    assert start.base_version == 2
    assert [(row.node_rank, row.node_id) for row in start.rows] == [(1, "s")]
    assert start.reason is not None


def test_an_agent_that_may_not_hold_the_table_gets_all_of_it() -> None:
    story = Story().run("a", "b")
    story.lose("b")
    story.report("late")
    story.stop_all()
    story.classify()
    start = story.last(StartWorkers)
    assert (start.base_version, len(start.rows)) == (0, 2)

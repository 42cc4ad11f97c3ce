"""Hangs over two nodes: who hears whom, and which node tells whom to blame."""

from __future__ import annotations

from pathlib import Path

import pytest
from hang_scene import gang, stack_dumps

pytestmark = pytest.mark.asyncio


async def test_over_nodes_the_idle_ranks_are_told_by_their_own_node_and_by_no_other(tmp_path: Path) -> None:
    both = await gang(tmp_path)
    both.nodes[1].machine.stacks = {2: stack_dumps.SLEEP, 3: stack_dumps.SLEEP}
    await both.pass_time(10.0)
    assert await both.faults() == [[], []]
    await both.pass_time(15.0)
    assert await both.faults() == [[], [("hang_outside", [2, 3])]]
    assert len(both.bus.published) < 20, "a message a round and node"


async def test_a_gang_that_sits_in_one_collective_is_told_by_the_first_node(tmp_path: Path) -> None:
    both = await gang(tmp_path)
    await both.pass_time(55.0)
    assert await both.faults() == [[], []]
    assert len(both.bus.handlers) == 1, "a node whose ranks all wait has nobody to ask"
    await both.pass_time(15.0)
    assert await both.faults() == [[("hang_collective", [])], []]


async def test_ranks_in_another_collective_are_named_by_the_first_node(tmp_path: Path) -> None:
    both = await gang(tmp_path)
    both.nodes[1].machine.stacks[3] = stack_dumps.BARRIER
    await both.pass_time(70.0)
    (first, second) = await both.faults()
    assert (first, second) == ([("hang_mismatch", [])], [])
    assert "rank 3 in another collective" in both.nodes[0].node.said[-2]


async def test_what_another_generation_says_or_said_long_ago_does_not_count(tmp_path: Path) -> None:
    both = await gang(tmp_path)
    both.nodes[1].machine.stacks = {2: stack_dumps.SLEEP, 3: stack_dumps.SLEEP}
    await both.pass_time(10.0)
    assert set(both.nodes[1].stalls.others(1)) == {0, 1}
    assert both.nodes[1].stalls.others(2) == {}
    both.nodes[1].node.clock.at_s += 60.0
    assert both.nodes[1].stalls.others(1) == {}


async def test_without_the_bus_each_node_judges_alone(tmp_path: Path) -> None:
    both = await gang(tmp_path)
    both.bus.away = True
    both.nodes[1].machine.stacks[3] = stack_dumps.SLEEP
    await both.pass_time(20.0)
    assert await both.faults() == [[], [("hang_outside", [3])]]

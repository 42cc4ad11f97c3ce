"""Each invariant can be broken, and is then named."""

from dataclasses import replace

import pytest
from planner_story import Story

from recovery_planner.domain.gang import Effect, Gang, Phase
from recovery_planner.domain.invariants import InvariantBroken, assert_holds, violations
from recovery_planner.domain.member import Standing


def running() -> Gang:
    return Story().run("a", "b").gang


def stopping() -> Gang:
    story = Story().run("a", "b")
    story.die("a", 0)
    return story.gang


def test_good_records_hold() -> None:
    assert_holds(running())
    assert_holds(stopping())


def lost_member(gang: Gang) -> Gang:
    return replace(gang, members={**gang.members, "a": replace(gang.members["a"], standing=Standing.LOST)})


BROKEN = {
    "rows for 2 nodes": replace(running(), table=replace(running().table, rows=())),
    "at topology_version 0": replace(running(), table=replace(running().table, topology_version=0)),
    "stopping without an incident": replace(stopping(), incident=None),
    "without a deadline": replace(stopping(), deadline_at=None),
    "running with an open incident": replace(stopping(), phase=Phase.RUNNING, deadline_at=None),
    "running with a deadline": replace(running(), deadline_at=stopping().deadline_at),
    "the ending is missing": replace(running(), phase=Phase.ENDED),
    "the table is older": replace(stopping(), table=replace(stopping().table, topology_version=0)),
    "has a row and no member": replace(running(), members={}),
    "is lost in a gang": lost_member(running()),
    "pending effects": replace(running(), pending=(Effect(seq=10_000, payload=Story().reported("a")),)),
}


@pytest.mark.parametrize("words", BROKEN)
def test_broken_record_is_named(words: str) -> None:
    with pytest.raises(InvariantBroken, match=words):
        assert_holds(BROKEN[words])


def test_a_node_lost_after_its_work_is_allowed() -> None:
    gang = lost_member(running())
    assert list(violations(gang)) != []
    assert list(violations(replace(gang, completed=frozenset({"a"})))) == []

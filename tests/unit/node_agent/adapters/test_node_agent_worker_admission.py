"""Who gets a connection to the worker socket when many want one."""

from datetime import UTC, datetime

from node_agent.adapters.worker_admission import (
    CONNECTIONS_MAX,
    RANK_CONNECTIONS_MAX,
    STRANGERS_MAX,
    connections_max,
    refusal,
)
from node_agent.application.ports import WorkerHandle, WorkerSource
from training_topology.identity import LocalRank, Rank


def handle(rank: int) -> WorkerHandle:
    return WorkerHandle(
        rank=Rank(rank),
        local_rank=LocalRank(rank),
        topology_version=1,
        pid=100 + rank,
        start_ticks=1,
        source=WorkerSource.SPAWN,
        started_at=datetime(2030, 1, 1, tzinfo=UTC),
        stacks_on_signal=False,
    )


def test_a_rank_has_its_share_and_the_others_keep_theirs() -> None:
    greedy = [handle(0)] * RANK_CONNECTIONS_MAX
    assert refusal(greedy[1:], handle(0), limit=512) == ""
    assert refusal(greedy, handle(0), limit=512) == f"more than {RANK_CONNECTIONS_MAX} connections of rank 0"
    assert refusal(greedy, handle(1), limit=512) == ""


def test_strangers_have_one_share_together() -> None:
    strangers = [None] * STRANGERS_MAX
    assert "no worker yet" in refusal(strangers, None, limit=512)
    assert refusal(strangers, handle(0), limit=512) == ""
    assert refusal([None, handle(0)], None, limit=512) == ""


def test_the_whole_is_bounded_too() -> None:
    assert refusal([handle(n) for n in range(64)], handle(99), limit=64) == "more than 64 connections"
    assert RANK_CONNECTIONS_MAX <= connections_max() <= CONNECTIONS_MAX

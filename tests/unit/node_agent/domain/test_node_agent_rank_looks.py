"""What two looks at a rank say: use of CPU and I/O, and whether it moved."""

from __future__ import annotations

import pytest
import stack_dumps

from node_agent.domain.open_collectives import LINES_MAX, open_collectives
from node_agent.domain.rank_evidence import ProcessState, Whereabouts
from node_agent.domain.rank_looks import ProcessUsage, RankLook, evidence_of
from node_agent.domain.stack_dump import parse_last_dump
from node_agent.domain.stack_groups import RankStack, stack_of


def read(text: str) -> RankStack:
    stack = stack_of(parse_last_dump(text))
    assert stack is not None
    return stack


SLEEPS = read(stack_dumps.SLEEP)


def seen(at_s: float, stack: RankStack | None = SLEEPS, **usage: float) -> RankLook:
    return RankLook(
        at_s=at_s,
        state=ProcessState.SLEEPING,
        state_age_s=1.0,
        usage=ProcessUsage(**{"cpu_s": 10.0, **usage}),  # type: ignore[arg-type]
        stack=stack,
    )


def test_a_first_look_shows_the_place_and_no_movement() -> None:
    evidence = evidence_of(None, seen(5.0))
    assert (evidence.cpu_share, evidence.io_bytes, evidence.moved) == (None, None, None)
    assert evidence.whereabouts is Whereabouts.UNSEEN


def test_a_second_look_shows_an_idle_rank() -> None:
    evidence = evidence_of(seen(5.0), seen(5.2))
    assert (evidence.cpu_share, evidence.io_bytes, evidence.moved) == (0.0, 0, False)
    assert evidence.whereabouts is Whereabouts.IDLE


@pytest.mark.parametrize(
    "used",
    [
        {"cpu_s": 10.02},
        {"storage_bytes": 1},
        {"any_bytes": 20_000},  # a download: 100 KB/s
    ],
)
def test_cpu_storage_and_a_steady_stream_of_bytes_are_work(used: dict[str, float]) -> None:
    assert evidence_of(seen(5.0), seen(5.2, **used)).whereabouts is Whereabouts.WORKING


def test_a_heartbeat_over_a_socket_is_no_work() -> None:
    assert evidence_of(seen(5.0), seen(5.2, any_bytes=500)).whereabouts is Whereabouts.IDLE


def test_children_work_for_a_rank_that_waits_for_its_data_and_for_no_other() -> None:
    loading = read(stack_dumps.DATA_LOADER)
    assert evidence_of(seen(5.0, loading), seen(5.2, loading, children_cpu_s=0.2)).whereabouts is Whereabouts.WORKING
    assert evidence_of(seen(5.0), seen(5.2, children_cpu_s=0.2)).whereabouts is Whereabouts.IDLE


def test_a_child_that_ended_takes_nothing_back() -> None:
    loading = read(stack_dumps.DATA_LOADER)
    evidence = evidence_of(seen(5.0, loading, children_cpu_s=9.0), seen(5.2, loading, cpu_s=10.1))
    assert evidence.cpu_share == pytest.approx(0.5)


def test_another_place_is_movement() -> None:
    assert evidence_of(seen(5.0), seen(5.2, read(stack_dumps.EVALUATE))).moved is True


def test_what_cannot_be_read_is_unknown() -> None:
    blind = RankLook(at_s=5.2)
    evidence = evidence_of(seen(5.0), blind)
    assert (evidence.cpu_share, evidence.io_bytes, evidence.moved) == (None, None, None)


def test_lines_that_name_an_open_collective_are_kept_the_newest_first_of_all() -> None:
    watchdog = (
        "[rank1]:[E] ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 ms"
    )
    assert open_collectives(["loss 0.1", watchdog, "step 3"]) == (watchdog,)
    many = [f"WorkNCCL(SeqNum={n}" for n in range(50)]
    assert open_collectives(many) == tuple(many[-LINES_MAX:])

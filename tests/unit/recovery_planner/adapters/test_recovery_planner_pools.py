"""Where nodes come from: a list in a file, and a cloud that delays, fails and hands old machines out again."""

import asyncio
from pathlib import Path

import pytest

from fault_contracts.cluster_policy import PoolPolicy
from recovery_planner.adapters.pool_simulated import SimulatedCloud
from recovery_planner.adapters.pool_static import StaticPool, read_names
from recovery_planner.adapters.pools import pool_of
from recovery_planner.application.tending_ports import PoolAnswer
from service_kit.errors import TransientError
from service_kit.testing.virtual_clock import LoopClock, run_virtual


def static(path: Path, *taken: str) -> StaticPool:
    return StaticPool(path, is_taken=lambda name: name in taken)


async def acquired(pool: StaticPool, request_id: str) -> PoolAnswer:
    return await pool.acquire(request_id=request_id, labels={})


def test_the_first_free_name_is_given_once(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    path.write_text("n7  # rack 3\n\nn8\nn9\nn9\n")
    pool = static(path, "n7")

    async def story() -> list[PoolAnswer]:
        return [await acquired(pool, request) for request in ("r1", "r1", "r2", "r3")]

    first, again, second, none = asyncio.run(story())
    assert first == again == PoolAnswer(node_id="n8")
    assert second == PoolAnswer(node_id="n9")
    assert "no name" in none.failed


def test_a_list_may_grow_while_the_planner_runs(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    path.write_text("")
    pool = static(path)
    assert asyncio.run(acquired(pool, "r1")).failed
    path.write_text("n7\n")
    assert asyncio.run(acquired(pool, "r2")) == PoolAnswer(node_id="n7")


@pytest.mark.parametrize("text", ["two names\n", "x" * 300 + "\n"])
def test_what_is_no_list_of_names_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nodes"
    path.write_text(text)
    with pytest.raises(TransientError, match="no name of a node"):
        read_names(path)


def test_a_file_that_is_gone_may_come_back(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match="cannot be read"):
        read_names(tmp_path / "missing")


def cloud_story(policy: PoolPolicy, requests: int) -> tuple[list[PoolAnswer], list[tuple[str, str]]]:
    boots: list[tuple[str, str]] = []

    async def story() -> list[PoolAnswer]:
        clock = LoopClock()
        cloud = SimulatedCloud(policy, clock=clock, boot=lambda name, origin: boots.append((name, origin)))
        await cloud.retire("old", request_id="x", reason="broken")
        await cloud.retire("old", request_id="x", reason="broken")
        answers = []
        for number in range(requests):
            for _ in range(2):
                answers.append(await cloud.acquire(request_id=f"r{number}", labels={}))
                await clock.sleep(policy.delay_s)
        return answers

    return run_virtual(story()), boots


def test_a_cloud_delivers_after_its_delay_and_the_same_for_the_same_request() -> None:
    answers, boots = cloud_story(PoolPolicy(kind="simulated", delay_s=60), 1)
    assert answers == [PoolAnswer(), PoolAnswer(node_id="cloud-1")]
    assert boots == [("cloud-1", "")]


def test_a_cloud_fails_now_and_then() -> None:
    answers, _ = cloud_story(PoolPolicy(kind="simulated", delay_s=60, failures_every=2), 2)
    assert answers[1].node_id == "cloud-1"
    assert "no machine" in answers[3].failed


def test_a_cloud_hands_an_old_machine_out_under_a_new_name() -> None:
    _, boots = cloud_story(PoolPolicy(kind="simulated", delay_s=60, returns_every=2), 3)
    assert boots == [("cloud-1", ""), ("cloud-2", "old"), ("cloud-3", "")]


def test_the_policy_names_the_pool(tmp_path: Path) -> None:
    async def story() -> None:
        clock = LoopClock()
        assert pool_of(PoolPolicy(), None, clock, Reported()) is None
        cloud = pool_of(PoolPolicy(kind="simulated"), None, clock, Reported())
        assert cloud is not None
        assert isinstance(cloud(lambda _: False), SimulatedCloud)
        made = pool_of(PoolPolicy(kind="static", file="nodes"), tmp_path / "policy.yaml", clock, Reported())
        assert made is not None
        (tmp_path / "nodes").write_text("n7\n")
        pool = made(lambda _: False)
        assert pool is not None
        assert await pool.acquire(request_id="r", labels={}) == PoolAnswer(node_id="n7")

    asyncio.run(story())


class Reported:
    def __init__(self, *names: str) -> None:
        self.names = list(names)

    async def node_ids(self) -> list[str]:
        return list(self.names)

    async def load(self, node_id: str) -> None:
        return None


def test_in_kubernetes_a_node_that_came_after_the_request_is_the_answer_to_one_request() -> None:
    nodes = Reported("n1", "n2")
    make = pool_of(PoolPolicy(kind="kubernetes"), None, LoopClock(), nodes)
    assert make is not None
    pool = make(lambda _: True)  # it may be in the gate already

    async def story() -> None:
        await pool.retire("n1", request_id="r0", reason="given up")
        assert await pool.acquire(request_id="r1", labels={}) == PoolAnswer()
        assert await pool.acquire(request_id="r2", labels={}) == PoolAnswer()
        nodes.names.append("n3")
        assert await pool.acquire(request_id="r2", labels={}) == PoolAnswer(node_id="n3")
        assert await pool.acquire(request_id="r2", labels={}) == PoolAnswer(node_id="n3")
        assert await pool.acquire(request_id="r1", labels={}) == PoolAnswer()
        nodes.names.append("n4")
        assert await pool.acquire(request_id="r1", labels={}) == PoolAnswer(node_id="n4")

    asyncio.run(story())

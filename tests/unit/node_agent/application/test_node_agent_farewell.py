"""A node that is taken away: notice, request, checkpoint, stop, leave; and every way in which that may go wrong."""

import asyncio
from pathlib import Path
from signal import SIGINT, SIGTERM, SIGUSR1

import pytest
from agent_fakes import ROWS, Node, end, request, row, start, stop

from fault_contracts.agent import AgentPhase, CommandRefused
from fault_contracts.preemption import PreemptionNoticed
from fault_contracts.recovery import JobOutcome

pytestmark = pytest.mark.asyncio


async def training(tmp_path: Path, **more: object) -> Node:
    node = Node(tmp_path, **more)  # type: ignore[arg-type]
    await node.obey(start())
    node.steps(4, 5, 6)
    return node


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_planner_hears_of_it_at_once_and_training_goes_on(tmp_path: Path) -> None:
    node = await training(tmp_path)
    node.leave.on_signal(SIGUSR1)
    await turns()
    [*_, notice] = await node.reports_from()
    assert isinstance(notice, PreemptionNoticed)
    # Newest step 6, two steps of skew, and four steps of half a second fit into the lead of 2 s.
    assert (notice.node_id, notice.topology_version, notice.at_step, notice.within_s) == ("n0", 1, 12, 30.0)
    assert node.urgent(PreemptionNoticed) == [True]
    assert node.links.asked == [], "on several nodes the planner names the step"
    assert (node.life.phase, node.processes.stops) == (AgentPhase.RUNNING, [])


async def test_it_leaves_when_the_planner_has_stopped_the_gang(tmp_path: Path) -> None:
    node = await training(tmp_path)
    node.leave.on_signal(SIGUSR1)
    await turns()
    assert await node.obey(request(at_step=12)) == []
    assert [(rank, r.at_step) for rank, r in node.links.asked] == [(0, 12), (1, 12)]
    await node.obey(stop())
    async with asyncio.timeout(5):
        await node.life.ended.wait()
    assert node.life.exit_code == 128 + SIGUSR1
    assert node.processes.stops == [((1_001, 1_002), 0.5), ((), pytest.approx(30.0, abs=5))]
    assert any("stopped by the planner's order" in line for line in node.said)


async def test_a_gang_of_this_node_alone_is_asked_without_a_planner(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start(rows=(ROWS[0],)).model_copy(update={"nnodes": 1, "world_size": 2}))
    node.steps(4, 5, 6)
    node.leave.on_signal(SIGUSR1)
    await turns()
    assert [(rank, r.at_step) for rank, r in node.links.asked] == [(0, 12), (1, 12)]
    assert isinstance((await node.reports_from())[-1], PreemptionNoticed)


async def test_nobody_saves_so_the_ranks_are_stopped_when_the_time_is_over(tmp_path: Path) -> None:
    node = await training(tmp_path)
    node.leave = node.leaves_on(SIGTERM, shutdown_timeout_s=0.2)
    node.steps(*range(7, 40), every_s=0.001)
    node.leave.on_signal(SIGTERM)
    async with asyncio.timeout(10):
        await node.life.ended.wait()
    assert any("not reported within 0.2 s" in line for line in node.said), node.said
    [(pids, grace_s)] = node.processes.stops
    assert pids == (1_001, 1_002)
    assert 0 < grace_s <= 0.2, "what is left of the limit, and never more than it"
    assert node.processes.first_signals == [SIGTERM]


async def test_a_second_signal_stops_now_and_a_third_kills(tmp_path: Path) -> None:
    node = await training(tmp_path)
    node.leave.on_signal(SIGUSR1)
    await turns()
    node.processes.unkillable = True  # they take their time
    node.leave.on_signal(SIGTERM)
    async with asyncio.timeout(5):
        await node.life.ended.wait()
    assert any("not waited for any longer" in line for line in node.said)
    node.leave.on_signal(SIGINT)
    await turns()
    assert node.processes.stops[-1] == ((1_001, 1_002), 0.0)
    assert node.life.exit_code == 128 + SIGUSR1


async def test_without_worker_link_the_signal_is_passed_on_as_torchrun_does(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    node.leave.on_signal(SIGUSR1)
    async with asyncio.timeout(5):
        await node.life.ended.wait()
    assert node.processes.first_signals == [SIGUSR1]
    assert node.processes.stops == [((1_001, 1_002), 30.0)]
    assert any("no rank uses worker-link" in line for line in node.said)
    assert not any(isinstance(report, PreemptionNoticed) for report in await node.reports_from())


async def test_ctrl_c_asks_for_no_checkpoint_and_its_ranks_get_sigterm(tmp_path: Path) -> None:
    node = await training(tmp_path)
    node.leave = node.leaves_on(SIGTERM)
    node.leave.on_signal(SIGINT)
    async with asyncio.timeout(5):
        await node.life.ended.wait()
    assert node.processes.first_signals == [SIGTERM]
    assert not any(isinstance(report, PreemptionNoticed) for report in await node.reports_from())


async def test_a_rank_that_dies_meanwhile_ends_the_wait(tmp_path: Path) -> None:
    node = await training(tmp_path)
    node.leave.on_signal(SIGUSR1)
    await turns()
    node.processes.end(0, signal=9)
    async with asyncio.timeout(5):
        await node.life.ended.wait()
    assert any("a rank failed meanwhile" in line for line in node.said)


async def test_the_end_of_the_job_meanwhile_keeps_its_exit_code(tmp_path: Path) -> None:
    node = await training(tmp_path)
    node.leave.on_signal(SIGUSR1)
    await turns()
    await node.obey(end(JobOutcome.SUCCEEDED))
    await turns()
    assert node.life.exit_code == 0


# --------------------------------------------------------------------------------------------- the command


async def test_a_request_that_is_too_late_is_refused_aloud_and_no_rank_is_asked(tmp_path: Path) -> None:
    node = await training(tmp_path)
    refused = (await node.obey(request(at_step=6)))[-1]
    assert isinstance(refused, CommandRefused)
    assert (refused.code, node.links.asked) == ("too_late", [])
    assert "step 6 is finished here" in refused.message


async def test_a_request_where_nobody_can_be_asked_is_refused_aloud(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    [refused] = await node.obey(request())
    assert isinstance(refused, CommandRefused)
    assert refused.code == "no_worker_link"


@pytest.mark.parametrize("phase", ["ready", "faulted", "completed"])
async def test_a_request_in_another_phase_is_an_illegal_transition_and_no_success(tmp_path: Path, phase: str) -> None:
    node = await training(tmp_path)
    match phase:
        case "ready":
            await node.obey(stop())
            told = await node.obey(request(2))
        case "faulted":
            node.processes.end(0, signal=9)
            told = await node.obey(request())
        case _:
            node.processes.end(0, exit_code=0)
            node.processes.end(1, exit_code=0)
            told = await node.obey(request())
    refused = told[-1]
    assert isinstance(refused, CommandRefused)
    assert (refused.code, node.links.asked) == ("illegal_transition", [])
    assert node.life.phase.value == phase


async def test_a_spare_has_nobody_to_ask_and_says_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, node_id="n9")
    await node.obey(start(rows=(ROWS[0], row(1, "n1"))))
    assert await node.obey(request()) == []
    assert not any("refused" in line for line in node.said)


async def test_a_request_of_the_last_life_is_not_obeyed_again(tmp_path: Path) -> None:
    node = await training(tmp_path)
    await node.obey(request(at_step=12))
    second = Node(tmp_path, instance_id="life-2")
    assert await second.obey(request(at_step=12)) == []
    assert second.links.asked == []


async def test_a_repeated_request_is_one_request(tmp_path: Path) -> None:
    node = await training(tmp_path)
    await node.obey(request(at_step=12))
    await node.obey(request(at_step=12))
    assert len(node.links.asked) == 2, "one for each rank"

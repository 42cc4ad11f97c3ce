"""Commands as an agent sees them: started, stopped, repeated, refused, ended; and what the planner hears of it."""

import asyncio
from pathlib import Path

import pytest
from agent_fakes import ROWS, Node, end, row, start, stop

from fault_contracts.agent import AgentPhase, CommandRefused, WorkersStarted, WorkersStopped
from fault_contracts.commands import CheckpointRef
from fault_contracts.payload import Reason
from fault_contracts.recovery import JobOutcome
from node_agent.application.ports import WorkerError

pytestmark = pytest.mark.asyncio


async def test_a_start_runs_this_nodes_row_and_tells(tmp_path: Path) -> None:
    node = Node(tmp_path, node_id="n1")
    [told] = await node.obey(start(checkpoint=CheckpointRef(step=40, path="/c/40")))
    assert isinstance(told, WorkersStarted)
    assert told.pids == (1_001, 1_002)
    assert [spec.rank for spec in node.processes.specs] == [2, 3]
    env = node.processes.specs[1].env
    assert (env["RANK"], env["LOCAL_RANK"], env["GROUP_RANK"], env["WORLD_SIZE"]) == ("3", "1", "1", "4")
    assert (env["PHALANX_CHECKPOINT_STEP"], env["HOME"]) == ("40", "/h")
    assert node.life.phase is AgentPhase.RUNNING
    assert node.urgent(WorkersStarted) == [True]


async def test_a_restart_says_why_before_it_says_that(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    await node.obey(stop())
    assert not [line for line in node.said if "verdict" in line], "a first start has nothing to explain"
    why = Reason(rule_id="classify.platform.killed", sentence="platform, process_killed: rank 3 was ended by SIGKILL")
    again = start(2, base_version=1, attempt=1, restart_count=1).model_copy(update={"reason": why})
    await node.obey(again)
    assert node.said[-2] == "verdict: platform, process_killed: rank 3 was ended by SIGKILL"
    assert node.said[-1].startswith("restarted ranks 0-1 of 4")


async def test_a_stop_ends_all_and_brings_a_fresh_store_address(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    [told] = await node.obey(stop())
    assert isinstance(told, WorkersStopped)
    assert (told.topology_version, told.master_port, len(told.exits)) == (1, 5_002, 2)
    assert node.processes.stops == [((1_001, 1_002), 0.5)]
    assert node.life.phase is AgentPhase.READY


async def test_a_repeat_is_answered_with_the_stored_outcome_and_not_done_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    [first] = await node.obey(start())
    [again] = await node.obey(start())
    assert again == first
    assert len(node.processes.specs) == 2
    [stopped] = await node.obey(stop())
    [again] = await node.obey(stop())
    assert again == stopped
    assert len(node.processes.stops) == 1
    ids = [envelope.id for envelope, _ in node.outbox.sent]
    assert len(set(ids)) == len(ids), "the server drops an id it has seen; the answer would be lost"


async def test_an_older_command_is_refused_aloud(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    await node.obey(stop())
    await node.obey(start(2, attempt=1))
    [refused] = await node.obey(stop(1, attempt=2))
    assert isinstance(refused, CommandRefused)
    assert (refused.code, refused.operation_id) == ("stale", "stop-1-2")
    assert node.life.phase is AgentPhase.RUNNING


async def test_an_expired_command_is_refused_aloud_but_not_when_a_catch_up_finds_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.clock.at_s = 61.0
    [refused] = await node.obey(start())
    assert isinstance(refused, CommandRefused)
    assert refused.code == "expired"
    assert await node.obey(end(), pushed=False) == []
    assert node.life.exit_code is None


@pytest.mark.parametrize("wrong_s", [-7_200.0, 7_200.0])
async def test_a_wall_clock_that_is_wrong_by_hours_changes_nothing(tmp_path: Path, wrong_s: float) -> None:
    """What is refused for it stays refused: an agent that is an hour ahead would never obey the end of its job."""
    node = Node(tmp_path)
    node.clock.wrong_s = wrong_s
    assert isinstance((await node.obey(start()))[0], WorkersStarted)
    node.clock.at_s = 61.0
    [refused] = await node.obey(stop())
    assert isinstance(refused, CommandRefused)
    assert refused.code == "expired", "by the planner's clock it has, on any machine"
    await node.obey(end(valid_s=90.0))
    assert node.life.exit_code is not None


async def test_a_start_on_running_ranks_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    [refused] = await node.obey(start(2, attempt=1))
    assert isinstance(refused, CommandRefused)
    assert refused.code == "illegal_transition"
    assert len(node.processes.alive) == 2
    assert node.life.group is not None
    assert node.life.group.topology_version == 1


async def test_a_delta_on_an_unknown_table_is_refused_and_the_whole_table_then_works(tmp_path: Path) -> None:
    node = Node(tmp_path)
    [refused] = await node.obey(start(5, base_version=4, rows=(row(1, "n9"),)))
    assert isinstance(refused, CommandRefused)
    assert refused.code == "table_gap"
    assert not any("refused" in line for line in node.said), "for a spare nothing is wrong"
    [told] = await node.obey(start(6, attempt=1))
    assert isinstance(told, WorkersStarted)


async def test_a_delta_on_the_known_table_is_merged(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    await node.obey(stop())
    [told] = await node.obey(start(2, attempt=1, base_version=1, rows=(row(1, "n9"),)))
    assert isinstance(told, WorkersStarted)
    assert [held.node_id for held in node.life.table.rows] == ["n0", "n9"]


async def test_a_spare_waits_keeps_the_table_and_takes_over(tmp_path: Path) -> None:
    node = Node(tmp_path, node_id="n2")
    assert await node.obey(start()) == []
    assert node.life.phase is AgentPhase.READY
    assert any("standing by" in line for line in node.said)
    await node.obey(stop())
    [told] = await node.obey(start(2, attempt=1, base_version=1, rows=(row(0, "n2"),)))
    assert isinstance(told, WorkersStarted)
    assert [spec.rank for spec in node.processes.specs] == [0, 1]


async def test_a_node_that_lost_its_place_stops_its_ranks(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    await node.obey(start(2, attempt=1, rows=(row(0, "n2"), ROWS[1])))
    assert node.processes.alive == {}
    assert node.life.phase is AgentPhase.READY


async def test_a_failed_start_cleans_up_and_says_why(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.processes.refuse = "no interpreter at /nowhere"
    [refused] = await node.obey(start())
    assert isinstance(refused, CommandRefused)
    assert (refused.code, refused.message) == ("start_failed", "no interpreter at /nowhere")
    assert node.processes.alive == {}
    assert node.life.phase is AgentPhase.READY
    node.processes.refuse = ""
    [told] = await node.obey(start(2, attempt=1))
    assert isinstance(told, WorkersStarted)


async def test_the_end_stops_what_runs_and_names_fault_and_logs(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    error = WorkerError(
        source="error_file", type="ValueError", message="bad shard\nmore", frames=("train.py:3 in main: load()",)
    )
    node.processes.end(1, exit_code=1, error=error)
    await node.obey(end(JobOutcome.FAILED_USER))
    assert node.life.exit_code == 1
    assert node.life.ended.is_set()
    assert node.processes.alive == {}
    text = "\n".join(node.said)
    for part in ("training script", "same exception twice", "fix the loader", "ValueError: bad shard", "load()"):
        assert part in text
    assert str(tmp_path / "attempt_1" / "1") in text


async def test_after_the_end_nothing_is_started_any_more(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(end())
    [refused] = await node.obey(start(2, attempt=1))
    assert isinstance(refused, CommandRefused)
    assert refused.code == "illegal_transition"
    assert node.processes.specs == []


async def test_a_new_life_does_not_start_again_what_an_earlier_one_started(tmp_path: Path) -> None:
    first = Node(tmp_path)
    await first.obey(start())
    first.journal.close()
    second = Node(tmp_path, instance_id="life-2")
    assert await second.obey(start(), pushed=False) == []
    assert second.processes.specs == []
    [told] = await second.obey(stop())
    assert isinstance(told, WorkersStopped)
    assert told.instance_id == "life-2"


async def test_a_new_life_owes_an_answer_to_a_stop_that_the_earlier_one_began(tmp_path: Path) -> None:
    first = Node(tmp_path)
    await first.obey(start())
    await first.obey(stop())
    first.journal.close()
    second = Node(tmp_path, instance_id="life-2")
    [told] = await second.obey(stop())
    assert isinstance(told, WorkersStopped)
    assert (told.instance_id, told.exits) == ("life-2", ())


async def test_unkillable_processes_are_reported_and_not_waited_for(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    node.processes.unkillable = True
    [told] = await node.obey(stop())
    assert isinstance(told, WorkersStopped)
    assert told.stuck_pids == (1_001, 1_002)
    assert node.life.phase is AgentPhase.READY


async def test_commands_are_carried_out_one_at_a_time_in_their_order(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.processes.hold = asyncio.Event()
    starting = asyncio.create_task(node.obey(start()))
    await asyncio.sleep(0)
    stopping = asyncio.create_task(node.obey(stop()))
    await asyncio.sleep(0.01)
    assert node.processes.stops == []
    node.processes.hold.set()
    await asyncio.gather(starting, stopping)
    assert node.processes.stops == [((1_001, 1_002), 0.5)]
    assert node.processes.alive == {}


async def test_a_command_of_another_job_is_not_ours(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert await node.obey(start().model_copy(update={"job_id": "other"})) == []
    assert node.processes.specs == []

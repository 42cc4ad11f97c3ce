"""What /status and /ranks say: of ranks that run, stopped, failed, finished; and where no rank ever was."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from agent_fakes import Node, start, stop

from fault_contracts.agent import AgentPhase
from node_agent.application.describe_agent import AgentDescriber
from node_agent.application.ports import RankFiles, WorkerHandle
from node_agent.application.status_views import RankState
from node_agent.domain.block_ranks import BlockPlace, BlockRanks
from training_topology.identity import LocalRank
from worker_link.messages import CheckpointSaved, RankLabels, Step

pytestmark = pytest.mark.asyncio


class Backlog:
    dropped = 2

    def __len__(self) -> int:
        return 7


class Look:
    """Letters of /proc by local rank."""

    def __init__(self) -> None:
        self.letters: dict[int, str] = {}

    def state_of(self, handle: WorkerHandle) -> str:
        return self.letters.get(handle.local_rank, "S")

    def answers_dump_signal(self, handle: WorkerHandle, files: RankFiles) -> bool:
        return True


def described(node: Node) -> tuple[AgentDescriber, Look]:
    look = Look()
    return AgentDescriber(node.life, node.processes, look, Backlog(), node.clock), look


async def test_before_the_first_start_there_are_ranks_without_processes(tmp_path: Path) -> None:
    node = Node(tmp_path)
    describer, _ = described(node)
    status = describer.status()
    assert (status.phase, status.topology_version, status.node_rank) == (AgentPhase.READY, 0, None)
    assert (status.planner_seen_age_s, status.bus_connected, status.last_fault) == (None, None, None)
    assert (status.outbox_events, status.outbox_dropped) == (7, 2)
    assert [(r.state, r.rank, r.pid) for r in describer.ranks()] == [(RankState.NOT_STARTED, None, None)] * 2


async def test_a_running_rank_shows_its_step_its_age_and_what_it_confirmed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    describer, _ = described(node)
    await node.obey(start())
    first, second = sorted(node.processes.alive.values(), key=lambda handle: handle.rank)
    node.clock.at_s = 5.0
    node.relay.on_step(first, Step(step=41, at_monotonic_s=0.0))
    node.relay.on_checkpoint(first, CheckpointSaved(step=40, path="/c/40"))
    node.relay.on_labels(second, RankLabels(labels={"dp": "1"}))
    node.clock.at_s = 8.0
    ranks = describer.ranks()
    assert [(r.rank, r.pid, r.state) for r in ranks] == [
        (0, first.pid, RankState.RUNNING),
        (1, second.pid, RankState.RUNNING),
    ]
    assert (ranks[0].step, ranks[0].last_step_age_s, ranks[0].checkpoints) == (41, 3.0, {"model": 40})
    assert (ranks[1].step, ranks[1].last_step_age_s, ranks[1].labels) == (None, None, {"dp": "1"})
    assert describer.status().planner_seen_age_s == 8.0
    assert describer.status().node_rank == 0


async def test_a_step_of_the_last_generation_is_no_step_of_this_one(tmp_path: Path) -> None:
    node = Node(tmp_path)
    describer, _ = described(node)
    await node.obey(start())
    node.relay.on_step(next(iter(node.processes.alive.values())), Step(step=41, at_monotonic_s=0.0))
    await node.obey(stop())
    await node.obey(start(2, attempt=1, restart_count=1))
    assert [rank.step for rank in describer.ranks()] == [None, None]
    assert describer.status().restart_count == 1


async def test_kernel_and_block_name_the_state(tmp_path: Path) -> None:
    node = Node(tmp_path)
    describer, look = described(node)
    await node.obey(start())
    node.life.blocks = BlockRanks(
        topology_version=1, nproc=2, places={LocalRank(0): BlockPlace.AT_BARRIER, LocalRank(1): BlockPlace.FAULTED}
    )
    assert [rank.state for rank in describer.ranks()] == [RankState.AT_BARRIER, RankState.FAULTED]
    look.letters = {0: "T", 1: "D"}
    assert [rank.state for rank in describer.ranks()] == [RankState.STOPPED, RankState.BLOCKED]
    look.letters = {0: "Z", 1: ""}
    assert [rank.state for rank in describer.ranks()] == [RankState.ENDED, RankState.ENDED]


async def test_ends_and_the_fault_behind_them_are_told(tmp_path: Path) -> None:
    node = Node(tmp_path)
    describer, _ = described(node)
    await node.obey(start())
    node.processes.end(1, signal=9)
    node.processes.end(0, exit_code=0)
    assert [rank.state for rank in describer.ranks()] == [RankState.COMPLETED, RankState.FAILED]
    status = describer.status()
    assert status.phase is AgentPhase.FAULTED
    assert status.last_fault is not None
    assert (status.last_fault.rank, status.last_fault.status) == (1, "SIGKILL")


async def test_log_states_and_refused_clients_come_from_who_knows_them(tmp_path: Path) -> None:
    node = Node(tmp_path)
    describer, _ = described(node)
    await node.obey(start())
    describer.log_states = lambda: {1: "slow"}
    describer.bad_clients = lambda: node.relay.bad_clients
    for pid in range(9):
        node.relay.on_bad_client(pid, "noise")
    assert [rank.log_state for rank in describer.ranks()] == [None, "slow"]
    assert describer.status().bad_clients == 9


async def test_only_a_push_or_an_answer_is_a_sign_of_the_planner(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start(), pushed=False)
    assert node.life.planner_seen_at is None
    node.clock.at_s = 4.0
    await node.obey(stop())
    assert node.life.planner_seen_at == node.clock.now() - timedelta(0)

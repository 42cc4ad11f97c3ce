"""Each agent confirms what is its own in a folder that all of them see; what was there before is a candidate."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from agent_fakes import Node, start

from fault_contracts.agent import CheckpointReported
from fault_contracts.checkpoints import path_of
from node_agent.application.checkpoint_file_ports import FolderProblem
from node_agent.application.watch_checkpoint_folder import CheckpointFolderWatch
from node_agent.domain.checkpoint_arrivals import Entry, Look
from node_agent.domain.checkpoint_check import PathFacts, PathKind

pytestmark = pytest.mark.asyncio
GOOD = PathFacts(kind=PathKind.FILE, files=1, size_bytes=10, changed_ns=1)
TORN = PathFacts(kind=PathKind.FILE, files=1, size_bytes=10, changed_ns=1, torn=("no end",))


@dataclass
class FakeFolder:
    """Shows what the test puts there."""

    has_rank: bool = False
    entries: list[Entry] = field(default_factory=list)
    problem: str = ""

    async def look(self) -> Look:
        if self.problem:
            raise FolderProblem(self.problem)
        return Look(entries=tuple(self.entries))

    def rank_rule(self, path: str) -> tuple[tuple[str, ...], int]:
        before, after = path.split("rank")
        return (f"{before}rank", after.lstrip("0123456789")), 1

    def put(self, step: int, rank: int | None = None) -> str:
        path = f"/c/{step}" if rank is None else f"/c/{step}/rank{rank}.pt"
        self.entries.append(Entry(path=path, step=step, rank=rank, inode=len(self.entries) + 1, state=(1, 10, 1)))
        return path


class Rig:
    def __init__(self, tmp_path: Path, *, node_id: str = "n0", has_rank: bool = False) -> None:
        tmp_path.mkdir(exist_ok=True)
        self.node = Node(tmp_path, node_id=node_id)
        self.folder = FakeFolder(has_rank=has_rank)
        self.watch = CheckpointFolderWatch(
            self.node.life, self.node.checkpoints, self.folder, self.node.clock, self.node
        )

    def put(self, step: int, rank: int | None = None, facts: PathFacts = GOOD) -> None:
        self.node.files.looks[self.folder.put(step, rank)] = [facts]

    async def look_on(self, *, times: int = 4) -> None:
        for _ in range(times):
            self.node.clock.at_s += 1.0
            await self.watch.once()

    async def told(self) -> list[tuple[int, int, int | None]]:
        reports = await self.node.reports_from()
        return [(r.step, r.rank, r.writers) for r in reports if isinstance(r, CheckpointReported)]


async def test_one_writer_is_confirmed_by_the_node_of_rank_0_alone(tmp_path: Path) -> None:
    rigs = [Rig(tmp_path / name, node_id=name) for name in ("n0", "n1")]
    for rig in rigs:
        await rig.node.obey(start())
        rig.put(10)
        await rig.look_on()
    assert [await rig.told() for rig in rigs] == [[(10, 0, 1)], []]


async def test_each_node_confirms_the_files_of_its_own_ranks(tmp_path: Path) -> None:
    rig = Rig(tmp_path, node_id="n1", has_rank=True)
    await rig.node.obey(start())
    for rank in range(4):
        rig.put(10, rank)
    rig.put(10, 77)
    await rig.look_on()
    assert await rig.told() == [(10, 2, None), (10, 3, None)]


async def test_one_that_is_torn_is_said_once_and_counts_when_it_is_whole(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.node.obey(start())
    rig.put(10, facts=TORN)
    await rig.look_on(times=9)
    assert await rig.told() == []
    assert len([line for line in rig.node.said if "not a whole checkpoint yet" in line]) == 1
    rig.node.files.looks["/c/10"] = [GOOD]
    await rig.look_on()
    assert await rig.told() == [(10, 0, 1)]


async def test_the_newest_whole_one_from_before_is_a_candidate_and_not_a_report(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.put(10)
    rig.put(20)
    rig.put(30, facts=TORN)
    found = await rig.watch.find_before()
    assert found is not None
    assert (found.step, found.path) == (20, "/c/20")
    await rig.node.obey(start())
    await rig.look_on()
    assert await rig.told() == []


async def test_a_candidate_of_many_ranks_needs_all_of_them(tmp_path: Path) -> None:
    rig = Rig(tmp_path, has_rank=True)
    for rank in range(4):
        rig.put(10, rank)
    for rank in range(3):
        rig.put(20, rank)
    found = await rig.watch.find_before()
    assert found is not None
    assert found.step == 10
    assert [path_of(found, rank) for rank in range(4)] == [f"/c/10/rank{rank}.pt" for rank in range(4)]


async def test_a_folder_that_cannot_be_read_is_said_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.node.obey(start())
    rig.folder.problem = "permission denied"
    await rig.look_on()
    assert len([line for line in rig.node.said if "permission denied" in line]) == 1

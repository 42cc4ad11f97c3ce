"""Lines to findings on their way to the judge: in time, before the death, bounded, and never in the way of output."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from agent_fakes import Node, start, stop

from fault_contracts.agent import WorkerExited
from fault_contracts.findings import FindingsReported
from node_agent.application.every_tap import EveryTap
from node_agent.application.look_at_survivors import SurvivorLook
from node_agent.application.output_tap import OutputPlace
from node_agent.application.read_findings import BUSY_SHARE_MAX, EARLY_BYTES_MAX, WINDOW_S, FindingReader
from node_agent.domain.finding_fold import Found
from node_agent.domain.log_rule import LogStream
from training_topology.identity import LocalRank, Rank

pytestmark = pytest.mark.asyncio
ERR, OUT = LogStream.STDERR, LogStream.STDOUT
DUMP = """Thread 0x00007f10 (most recent call first):
  File "/home/alice/data.py", line 7 in __getitem__
  File "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", line 54 in fetch
  File "/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 701 in __next__
  File "/home/alice/train.py", line 20 in <module>
"""


class Words:
    """Finds lines that begin with a role and a colon."""

    def __init__(self, clock=None, cost_s: float = 0.0) -> None:
        self.clock, self.cost_s, self.broken = clock, cost_s, False

    def read(self, data: bytes, stream: LogStream) -> Iterator[Found]:
        if self.broken:
            raise RuntimeError("a bug")
        if self.clock is not None:
            self.clock.at_s += self.cost_s
        for line in data.decode(errors="replace").splitlines():
            role, colon, text = line.partition(": ")
            if colon and role in ("cause", "context", "progress"):
                yield Found(kind=text.split()[0], role=role, signature_id=f"test.{text.split()[0]}", text=line,
                            captures={"all": text})  # fmt: skip


class Scene:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.reader = FindingReader(node.life, node.outgoing, node.clock, node)
        node.life.watches.append(self.reader)

    async def begin(self) -> Scene:
        await self.node.obey(start())
        return self

    def say(self, rank: int, text: bytes, stream: LogStream = ERR, version: int = 1) -> None:
        place = OutputPlace(topology_version=version, rank=Rank(rank), local_rank=LocalRank(rank))
        self.reader.take(place, stream, text)

    async def reports(self) -> list[FindingsReported]:
        return [each for each in await self.node.reports_from() if isinstance(each, FindingsReported)]

    async def kinds(self) -> list[str]:
        return [each.kind for report in await self.reports() for each in report.findings]


async def scene(tmp_path: Path) -> Scene:
    made = await Scene(Node(tmp_path)).begin()
    made.reader.use(Words())
    return made


async def test_findings_of_one_moment_are_one_urgent_report(tmp_path: Path) -> None:
    made = await scene(tmp_path)
    made.say(0, b"nothing here\ncause: oom on GPU 1\nhalf a li")
    made.say(1, b"cause: oom \x1b[31mred\n", OUT)
    await asyncio.sleep(0.08)
    (report,) = await made.reports()
    places = [(each.rank, each.stream, each.kind) for each in report.findings]
    assert places == [(0, "stderr", "oom"), (1, "stdout", "oom")]
    assert report.findings[1].excerpt == "cause: oom \N{REPLACEMENT CHARACTER}[31mred"
    assert report.findings[0].pid == next(h.pid for h in made.node.life.handles if h.rank == 0)
    assert made.node.urgent(FindingsReported) == [True]


async def test_what_explains_a_death_is_told_before_it_also_without_a_newline(tmp_path: Path) -> None:
    made = await scene(tmp_path)
    made.say(1, b"progress: step 7\ncause: oom at the end")
    made.node.processes.end(1, exit_code=1)
    kinds = [type(each) for each in await made.node.reports_from()]
    assert kinds.index(FindingsReported) < kinds.index(WorkerExited)
    assert await made.kinds() == ["step", "oom"]


async def test_what_ranks_say_while_they_are_stopped_is_no_news(tmp_path: Path) -> None:
    made = await scene(tmp_path)
    await made.node.obey(stop())
    made.say(0, b"cause: terminated\n")
    await asyncio.sleep(0.06)
    assert await made.kinds() == []


async def test_output_before_the_signatures_are_loaded_is_read_later_and_only_so_much_of_it(tmp_path: Path) -> None:
    made = await Scene(Node(tmp_path)).begin()
    made.say(0, b"cause: early\n")
    made.say(0, b"x" * EARLY_BYTES_MAX + b"\ncause: late\n")
    made.reader.use(Words())
    await asyncio.sleep(0.06)
    assert (await made.kinds())[0] == "early"
    assert made.reader.skipped_bytes > 0


async def test_reading_costs_no_more_than_its_share(tmp_path: Path) -> None:
    made = await Scene(Node(tmp_path)).begin()
    clock = made.node.clock
    made.reader.use(Words(clock, cost_s=WINDOW_S * BUSY_SHARE_MAX))
    for _ in range(5):
        made.say(0, b"cause: loud\n")
    assert made.reader.skipped_bytes == 3 * len(b"cause: loud\n")
    clock.at_s += WINDOW_S
    made.say(0, b"cause: again\n")
    assert made.reader.skipped_bytes == 3 * len(b"cause: loud\n")


async def test_a_bug_in_the_reading_costs_findings_and_is_told_once(tmp_path: Path) -> None:
    made = await Scene(Node(tmp_path)).begin()
    words = Words()
    words.broken = True
    made.reader.use(words)
    made.say(0, b"cause: a\n")
    made.say(0, b"cause: b\n")
    assert sum("not read for findings" in line for line in made.node.said) == 1


async def test_of_two_taps_one_may_break(tmp_path: Path) -> None:
    made = await scene(tmp_path)

    class Broken:
        def take(self, *_: object) -> None:
            raise ValueError("no")

        def end(self, *_: object) -> None: ...

    both = EveryTap((Broken(), made.reader), made.node)
    place = OutputPlace(topology_version=1, rank=Rank(0), local_rank=LocalRank(0))
    for text in (b"cause: one\n", b"cause: two\n"):
        both.take(place, ERR, text)
    both.end(place, ERR)
    await asyncio.sleep(0.06)
    assert await made.kinds() == ["one", "two"]
    assert sum("Broken does not watch" in line for line in made.node.said) == 1


class Stacks:
    async def take(self, handles: Iterable, *, wait_s: float) -> dict[Rank, str]:
        return {handle.rank: DUMP for handle in handles}


@pytest.mark.parametrize(("how", "kinds"), [({"exit_code": 1}, ["stack_in_data"]), ({"signal": 9}, [])])
async def test_where_the_survivors_stand_is_told_when_a_rank_ends_with_an_error(tmp_path: Path, how, kinds) -> None:
    made = await scene(tmp_path)
    made.node.life.watches.append(SurvivorLook(made.node.life, Stacks(), made.reader))
    made.node.processes.end(1, **how)
    await asyncio.sleep(0.02)
    found = [each for report in await made.reports() for each in report.findings]
    assert [each.kind for each in found] == kinds
    assert all(each.rank == 0 and "data_loader" in each.excerpt for each in found)

"""Stacks are asked for only where the signal does no harm; tails are whole lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_fakes import Node, start, stop

from node_agent.application.describe_agent import AgentDescriber
from node_agent.application.inspect_rank import DUMP_INTERVAL_S, RankInspection, TooSoon, UnknownRank
from node_agent.application.ports import RankFiles, WorkerHandle
from node_agent.application.status_views import FileTail, LogStreamName
from worker_link.linux import STACK_DUMP_SIGNAL

pytestmark = pytest.mark.asyncio

DUMP = """\
Thread 0x00007f0000000001 (most recent call first):
  File "/lib/python3.11/threading.py", line 320 in wait
  File "/lib/python3.11/threading.py", line 995 in _bootstrap

Current thread 0x00007f0000000002 (most recent call first):
  File "/job/train.py", line 7 in all_reduce
  File "/job/train.py", line 20 in <module>
"""


class Records:
    """Files of ranks, in memory."""

    def __init__(self) -> None:
        self.data = b""
        self.size = 0
        self.dump = DUMP
        self.mark = 0
        self.asked: list[Path] = []

    async def tail(self, files: RankFiles, stream: LogStreamName, *, bytes_max: int) -> FileTail:
        path = files.stdout if stream is LogStreamName.STDOUT else files.stderr
        size = self.size or len(self.data)
        return FileTail(path=str(path), size_bytes=size, offset=size - len(self.data), data=self.data)

    async def dump_mark(self, files: RankFiles) -> int:
        self.asked.append(files.stacks)
        return self.mark

    async def dump_after(self, files: RankFiles, mark: int, *, limit_s: float) -> str:
        return self.dump


class Look:
    """A process that is there and answers, unless told otherwise."""

    answers = True

    def state_of(self, handle: WorkerHandle) -> str:
        return "T"

    def answers_dump_signal(self, handle: WorkerHandle, files: RankFiles) -> bool:
        return self.answers


class Scene:
    """A node with its inspection; and an empty backlog."""

    dropped = 0

    def __init__(self, tmp_path: Path) -> None:
        self.node = Node(tmp_path)
        self.records = Records()
        self.look = Look()
        self.signals: list[tuple[int, int]] = []
        self.born_in = 1
        processes = self.node.processes
        processes.signal = self.signal  # type: ignore[attr-defined]
        describer = AgentDescriber(self.node.life, processes, self.look, self, self.node.clock)
        self.inspection = RankInspection(
            self.node.life, describer, processes, self.look, self.records, self, self.node.clock
        )

    def __len__(self) -> int:
        return 0

    def files_of(self, handle: WorkerHandle) -> RankFiles:
        return self.node.life.program.files(self.born_in, handle.local_rank)

    def signal(self, handle: WorkerHandle, number: int) -> bool:
        self.signals.append((handle.rank, number))
        return True


async def test_stacks_are_parsed_and_the_main_thread_is_named(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.node.obey(start())
    view = await scene.inspection.stacks(1)
    assert scene.signals == [(1, STACK_DUMP_SIGNAL)]
    assert view.taken
    assert [thread.is_main for thread in view.threads] == [False, True]
    assert view.threads[1].frames[0].function == "all_reduce"
    assert view.raw == DUMP


async def test_a_rank_is_not_interrupted_again_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.node.obey(start())
    await scene.inspection.stacks(1)
    with pytest.raises(TooSoon) as refused:
        await scene.inspection.stacks(1)
    assert refused.value.wait_s == pytest.approx(DUMP_INTERVAL_S)
    await scene.inspection.stacks(0)
    scene.node.clock.at_s += DUMP_INTERVAL_S
    await scene.inspection.stacks(1)
    assert [rank for rank, _ in scene.signals] == [1, 0, 1]


async def test_no_signal_goes_to_a_process_that_it_would_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.node.obey(start())
    scene.look.answers = False
    view = await scene.inspection.stacks(0)
    assert (view.taken, scene.signals) == (False, [])
    assert "no handler" in view.reason
    scene.look.answers = True
    scene.node.processes.end(1, exit_code=0)
    assert (await scene.inspection.stacks(1)).reason == "its process has ended"
    scene.records.mark = 10**9
    scene.node.clock.at_s += 60
    assert "holds 1000000000 bytes" in (await scene.inspection.stacks(0)).reason
    assert scene.signals == []


async def test_a_process_that_does_not_answer_is_said_to_be_in_its_state(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.node.obey(start())
    scene.records.dump = ""
    view = await scene.inspection.stacks(0)
    assert not view.taken
    assert view.reason.endswith("process state T")


async def test_a_survivor_of_a_restart_in_place_has_the_files_it_was_born_with(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.node.obey(start())
    await scene.node.obey(stop())
    await scene.node.obey(start(2, attempt=1))
    await scene.inspection.stacks(0)
    scene.born_in = 2
    await scene.inspection.stacks(1)
    assert [path.parts[-3:-1] for path in scene.records.asked] == [("attempt_1", "0"), ("attempt_2", "1")]


async def test_a_tail_is_whole_lines_of_any_bytes(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.node.obey(start())
    scene.records.data = b"one\ntwo \xff\nhalf"
    view = await scene.inspection.tail(0, LogStreamName.STDOUT, lines_max=2)
    assert (view.lines, view.truncated) == (("two \\xff", "half"), True)
    view = await scene.inspection.tail(0, LogStreamName.STDERR, lines_max=9)
    assert (view.lines, view.truncated) == (("one", "two \\xff", "half"), False)
    assert view.path.endswith("stderr.log")
    scene.records.data, scene.records.size = b"f a line\nnext\n", 100
    view = await scene.inspection.tail(0, LogStreamName.STDOUT, lines_max=9)
    assert (view.lines, view.truncated, view.size_bytes) == (("next",), True, 100)


async def test_a_rank_of_another_node_is_refused_with_those_that_are_here(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with pytest.raises(UnknownRank, match="none yet"):
        await scene.inspection.stacks(0)
    await scene.node.obey(start())
    with pytest.raises(UnknownRank, match="ranks here: 0, 1"):
        await scene.inspection.tail(2, LogStreamName.STDOUT, lines_max=1)

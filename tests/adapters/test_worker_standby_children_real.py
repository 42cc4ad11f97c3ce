"""Children that the nursery forks ahead: used for the next start, gone with the nursery, replaced when killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from worker_rig import Rig, gone, rig

from node_agent.application.ports import WorkerSource
from worker_link.process_tree import read_process, read_processes

SLEEPER = "import time; time.sleep(600)"


async def standing_by(r: Rig, worker_pid: int, count: int) -> list[int]:
    """Pids of the children that wait, once there are `count`."""
    row = read_process(worker_pid)
    assert row is not None

    def waiting() -> list[int]:
        return [
            other.pid
            for other in read_processes().values()
            if other.parent_pid == row.parent_pid
            and Path(f"/proc/{other.pid}/comm").read_text().strip() == "phx-standby"
        ]

    deadline_s = time.monotonic() + 15
    while len(waiting()) != count:
        assert time.monotonic() < deadline_s, f"{waiting()} stand by, {count} are expected"
        await asyncio.sleep(0.02)
    return waiting()


@pytest.mark.asyncio
async def test_the_next_start_takes_the_child_that_stood_by(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.NURSERY) as r:
        first = await r.workers.start(r.spec(r.script(SLEEPER)))
        [ready] = await standing_by(r, first.pid, 1)
        second = await r.workers.start(r.spec(r.script(SLEEPER), rank=1))
        assert second.pid == ready
        await standing_by(r, first.pid, 2)  # two ranks were needed at once, so two are kept


@pytest.mark.asyncio
async def test_an_order_is_carried_out_once(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.NURSERY) as r:
        keeper = await r.workers.start(r.spec(r.script(SLEEPER, "keeper.py")))
        marks = tmp_path / "marks"
        marks.mkdir()
        mark = f"import os; open('{marks}/' + str(os.getpid()), 'w').close()"
        for round_ in range(1, 9):  # a child that reads fast has closed its end before the nursery is done sending
            await standing_by(r, keeper.pid, 1 if round_ == 1 else 2)
            await r.workers.start(r.spec(r.script(mark), rank=1))
            assert (await r.next_exit()).exit_code == 0
            assert len(list(marks.iterdir())) == round_


@pytest.mark.asyncio
async def test_a_killed_child_is_not_given_an_order_and_is_replaced(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.NURSERY) as r:
        first = await r.workers.start(r.spec(r.script(SLEEPER)))
        [ready] = await standing_by(r, first.pid, 1)
        os.kill(ready, signal.SIGSTOP)  # its end of the socket stays open until it runs again, here never
        os.kill(ready, signal.SIGKILL)
        assert (await r.run("raise SystemExit(7)")).exit_code == 7
        [other] = await standing_by(r, first.pid, 1)
        assert other != ready


@pytest.mark.asyncio
async def test_a_child_that_is_stopped_from_outside_holds_up_no_start(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.NURSERY) as r:
        first = await r.workers.start(r.spec(r.script(SLEEPER)))
        [ready] = await standing_by(r, first.pid, 1)
        os.kill(ready, signal.SIGSTOP)
        assert (await r.run("raise SystemExit(7)")).exit_code == 7
        assert await gone(ready)


@pytest.mark.asyncio
async def test_nobody_stands_by_for_a_dead_nursery(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.NURSERY) as r:
        first = await r.workers.start(r.spec(r.script(SLEEPER)))
        [ready] = await standing_by(r, first.pid, 1)
        row = read_process(first.pid)
        assert row is not None
        os.kill(row.parent_pid, signal.SIGKILL)
        assert await gone(ready)

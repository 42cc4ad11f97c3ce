"""The nursery when it is sick: killed, stuck, or not able to start."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from worker_rig import gone, rig

from node_agent.application.ports import (
    WorkerSource,
)
from worker_link.process_tree import read_process


@pytest.mark.asyncio
async def test_killed_nursery_takes_its_workers_and_spawn_takes_over(tmp_path: Path) -> None:
    (tmp_path / "slow_import.py").write_text("import time; time.sleep(0.7)")
    async with rig(tmp_path, WorkerSource.NURSERY, preload=("slow_import",)) as r:
        sleeper = r.script("import time; time.sleep(600)")
        handle = await r.workers.start(r.spec(sleeper))
        row = read_process(handle.pid)
        assert row is not None
        os.kill(row.parent_pid, signal.SIGKILL)
        ended = await r.next_exit()
        assert ended.handle == handle
        assert ended.exit_code is None
        assert ended.signal is None
        assert "nursery" in ended.status_reason
        assert await gone(handle.pid)
        again = await r.workers.start(r.spec(r.script("raise SystemExit(4)")))
        assert again.source is WorkerSource.SPAWN
        assert (await r.next_exit()).exit_code == 4
        assert "nursery ended" in await r.text_of(r.terminal_file, "nursery ended")
        await asyncio.sleep(1.5)  # a new one imports meanwhile
        assert (await r.run("raise SystemExit(4)")).handle.source is WorkerSource.NURSERY


@pytest.mark.asyncio
async def test_failing_preload_is_told_and_tolerated(tmp_path: Path) -> None:
    (tmp_path / "touches_cuda.py").write_text("raise SystemExit('no')")
    preload = ("json", "no_such_module", "touches_cuda")
    async with rig(tmp_path, WorkerSource.NURSERY, preload=preload) as r:
        assert r.report.preloaded == ("json",)
        assert "no_such_module failed (ModuleNotFoundError" in r.report.notice
        assert "touches_cuda failed (SystemExit: no)" in r.report.notice
        assert (await r.run("raise SystemExit(0)")).handle.source is WorkerSource.NURSERY


@pytest.mark.asyncio
async def test_nursery_that_cannot_start_is_a_notice_and_workers_are_spawned(tmp_path: Path) -> None:
    (tmp_path / "crashes.py").write_text("import os; os.kill(os.getpid(), 9)")
    async with rig(tmp_path, WorkerSource.NURSERY, preload=("crashes",), ready=False) as r:
        assert "nursery did not start" in r.report.notice
        ended = await r.run("raise SystemExit(6)")
        assert (ended.handle.source, ended.exit_code) == (WorkerSource.SPAWN, 6)


@pytest.mark.asyncio
async def test_preload_that_initialised_cuda_is_refused(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("")
    (tmp_path / "torch/cuda.py").write_text("def is_initialized(): return True")
    async with rig(tmp_path, WorkerSource.NURSERY, preload=("torch.cuda",), ready=False) as r:
        assert "initialised CUDA" in r.report.notice


@pytest.mark.asyncio
async def test_stuck_nursery_does_not_hide_a_death(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.NURSERY) as r:
        handle = await r.workers.start(r.spec(r.script("import time; time.sleep(600)")))
        row = read_process(handle.pid)
        assert row is not None
        os.kill(row.parent_pid, signal.SIGSTOP)
        os.kill(handle.pid, signal.SIGKILL)
        began = time.monotonic()
        ended = await r.next_exit()
        assert time.monotonic() - began < 1.0
        assert ended.handle == handle
        assert (ended.exit_code, ended.signal) == (None, None)
        assert "did not tell" in ended.status_reason
        os.kill(row.parent_pid, signal.SIGCONT)
        assert (await r.run("raise SystemExit(2)")).exit_code == 2

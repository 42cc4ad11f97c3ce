"""What is read of real processes: states, CPU time, I/O, stacks; and that nobody is harmed by being asked."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from worker_rig import SOURCES, Rig, alive, rig

from node_agent.adapters.dump_signal import answers_dump_signal
from node_agent.adapters.process_state import ProcReader
from node_agent.adapters.stack_files import StackFiles
from node_agent.application.ports import ProgramKind, WorkerHandle, WorkerSource
from node_agent.domain.rank_evidence import ProcessState

pytestmark = pytest.mark.asyncio

SLEEPS = """
import time
def wait_for_nothing():
    print("up", flush=True)
    time.sleep(600)
wait_for_nothing()
"""


@pytest.fixture(params=SOURCES, ids=str)
def source(request: pytest.FixtureRequest) -> WorkerSource:
    return WorkerSource(request.param)


async def state_of(handle: WorkerHandle, wanted: ProcessState) -> ProcessState | None:
    """The state once it is the wanted one, else the last."""
    reader, give_up_s = ProcReader(), time.monotonic() + 10
    while True:
        sample = reader.sample(handle)
        if (sample is not None and sample.state is wanted) or time.monotonic() > give_up_s:
            return None if sample is None else sample.state
        await asyncio.sleep(0.02)


def stacks_of(r: Rig) -> StackFiles:
    return StackFiles(files_of=r.workers.files_of, signal=r.workers.signal)


async def test_a_stop_shows_and_a_stranger_with_the_pid_does_not(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.SPAWN) as r:
        handle = await r.workers.start(r.spec(r.script(SLEEPS)))
        await r.text_of(r.stdout(), "up")
        assert await state_of(handle, ProcessState.SLEEPING) is ProcessState.SLEEPING
        assert r.workers.signal(handle, signal.SIGSTOP)
        assert await state_of(handle, ProcessState.STOPPED) is ProcessState.STOPPED
        assert ProcReader().sample(replace(handle, start_ticks=handle.start_ticks + 1)) is None
        assert ProcReader().usage(replace(handle, start_ticks=handle.start_ticks + 1)) is None


async def test_cpu_children_and_bytes_are_counted(tmp_path: Path) -> None:
    works = """
    import os, time
    if os.fork() == 0:
        while True:
            pass
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    with open("data", "wb") as file:
        file.write(b"x" * 1_000_000)
    print("up", flush=True)
    time.sleep(600)
    """
    async with rig(tmp_path, WorkerSource.SPAWN) as r:
        handle = await r.workers.start(r.spec(r.script(works)))
        await r.text_of(r.stdout(), "up")
        usage = ProcReader().usage(handle)
        assert usage is not None
        assert usage.cpu_s > 0.02
        assert usage.any_bytes > 1_000_000
        give_up_s = time.monotonic() + 20
        while usage.children_cpu_s <= 0.05 and time.monotonic() < give_up_s:
            await asyncio.sleep(0.05)
            usage = ProcReader().usage(handle)
            assert usage is not None
        assert usage.children_cpu_s > 0.05


async def test_each_dump_is_a_fresh_one_and_training_goes_on(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        handle = await r.workers.start(r.spec(r.script(SLEEPS)))
        await r.text_of(r.stdout(), "up")
        for _ in range(2):
            texts = await stacks_of(r).take([handle], wait_s=20.0)
            assert texts[handle.rank].count("wait_for_nothing") == 1
        assert alive(handle.pid)


async def test_a_stopped_rank_gives_no_dump_and_holds_nobody(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.SPAWN) as r:
        handles = [await r.workers.start(r.spec(r.script(SLEEPS), rank=rank)) for rank in (0, 1)]
        for rank in (0, 1):
            await r.text_of(r.stdout(rank), "up")
        r.workers.signal(handles[1], signal.SIGSTOP)
        texts = await stacks_of(r).take(handles, wait_s=1.0)
        assert set(texts) == {0}


@pytest.mark.parametrize("way", ["exec", "executable"])
async def test_a_process_without_the_handler_is_not_killed_by_being_asked(tmp_path: Path, way: str) -> None:
    async with rig(tmp_path, WorkerSource.SPAWN) as r:
        if way == "exec":
            replaces = "import os\nos.execv('/bin/sh', ['sh', '-c', 'echo up; exec sleep 600'])"
            spec = r.spec(r.script(replaces))
        else:
            spec = r.spec("/bin/sh", "-c", "echo up; exec sleep 600", kind=ProgramKind.EXECUTABLE)
        handle = await r.workers.start(spec)
        await r.text_of(r.stdout(), "up")
        give_up_s = time.monotonic() + 10
        while answers_dump_signal(handle, spec.files.stacks) and time.monotonic() < give_up_s:  # noqa: ASYNC110 - an exec tells nobody
            await asyncio.sleep(0.02)
        assert not answers_dump_signal(handle, spec.files.stacks)
        assert await stacks_of(r).take([handle], wait_s=0.2) == {}
        assert alive(handle.pid)


async def test_a_stacks_file_that_was_removed_is_no_dump(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.SPAWN) as r:
        handle = await r.workers.start(r.spec(r.script(SLEEPS)))
        await r.text_of(r.stdout(), "up")
        files = r.workers.files_of(handle)
        assert files is not None
        files.stacks.unlink()
        assert await stacks_of(r).take([handle], wait_s=0.2) == {}
        assert alive(handle.pid)

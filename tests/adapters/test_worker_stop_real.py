"""Stopping leaves nothing behind, whatever the script started and however the agent ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from worker_rig import SOURCES, Rig, alive, gone, read, rig

from node_agent.application.ports import (
    WorkerHandle,
    WorkerSource,
)
from training_topology.identity import Rank
from worker_link.process_tree import read_process


@pytest.fixture(params=SOURCES, ids=str)
def source(request: pytest.FixtureRequest) -> WorkerSource:
    return WorkerSource(request.param)


DAEMONISES = """
    import os, sys, time
    def leave(how):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for fd in (0, 1, 2):
                    os.close(fd)
                open(f"daemon-{how}", "w").write(str(os.getpid()))
                if how == "exec":
                    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"])
                time.sleep(600)
            os._exit(0)
        os.wait()
    leave("exec")
    leave("fork")
    if os.fork() == 0:
        open("child", "w").write(str(os.getpid()))
        time.sleep(600)
    open("ready", "w").write("yes")
    END
    time.sleep(600)
"""


async def daemons(r: Rig) -> list[int]:
    await r.text_of(r.folder / "ready", "yes")
    return [int(await r.text_of(r.folder / name)) for name in ("daemon-exec", "daemon-fork", "child")]


@pytest.mark.asyncio
@pytest.mark.parametrize("end", ["", "os._exit(5)"], ids=["alive", "dead"])
async def test_stop_ends_daemonised_grandchildren_too(tmp_path: Path, source: WorkerSource, end: str) -> None:
    async with rig(tmp_path, source) as r:
        bystander = await r.workers.start(r.spec(r.script("import time; time.sleep(600)", "other.py"), rank=1))
        handle = await r.workers.start(r.spec(r.script(DAEMONISES.replace("END", end))))
        pids = await daemons(r)
        if end:
            assert (await r.next_exit()).exit_code == 5
        assert all(alive(pid) for pid in pids)
        outcome = await r.workers.stop([handle], grace_s=0.5)
        assert [alive(pid) for pid in [handle.pid, *pids]] == [False] * 4
        assert (outcome.unkillable, outcome.leftover_pids) == ((), ())
        assert [e.handle for e in outcome.exits] == [handle]
        assert outcome.exits[0].requested is not bool(end)
        assert alive(bystander.pid)


@pytest.mark.asyncio
async def test_stop_gives_grace_then_kills(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        polite = """
            import signal, sys, time
            signal.signal(signal.SIGTERM, lambda *a: (print("saving"), sys.exit(0)))
            print("up", flush=True); time.sleep(600)
        """
        stubborn = """
            import signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("up", flush=True); time.sleep(600)
        """
        handles = [
            await r.workers.start(r.spec(r.script(polite, "a.py"), rank=0)),
            await r.workers.start(r.spec(r.script(stubborn, "b.py"), rank=1)),
        ]
        for rank in (0, 1):
            await r.text_of(r.stdout(rank), "up")
        outcome = await r.workers.stop(handles, grace_s=0.4)
        by_rank = {e.handle.rank: e for e in outcome.exits}
        assert by_rank[Rank(0)].exit_code == 0
        assert "saving" in r.stdout(0).read_text()
        assert by_rank[Rank(1)].signal == signal.SIGKILL
        assert 0.4 <= outcome.took_s < 1.5
        assert r.workers.running() == ()


@pytest.mark.asyncio
async def test_stopped_process_is_ended_within_grace(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        handle = await r.workers.start(r.spec(r.script("print('up', flush=True)\nimport time; time.sleep(600)")))
        await r.text_of(r.stdout(), "up")
        assert r.workers.signal(handle, signal.SIGSTOP)
        outcome = await r.workers.stop([handle], grace_s=0.5)
        assert outcome.exits[0].signal == signal.SIGTERM


@pytest.mark.asyncio
async def test_a_condemned_rank_gets_no_grace(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        hangs = """
            import signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("up", flush=True); time.sleep(600)
        """
        handle = await r.workers.start(r.spec(r.script(hangs)))
        await r.text_of(r.stdout(), "up")
        assert r.workers.signal(handle, signal.SIGSTOP)
        outcome = await r.workers.stop([handle], grace_s=30.0, condemned=[handle.rank])
        assert outcome.exits[0].signal == signal.SIGKILL
        assert outcome.took_s < 10.0


@pytest.mark.asyncio
async def test_cancelled_start_leaves_no_worker(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.NURSERY) as r:
        name = r.script("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)")
        first = await r.workers.start(r.spec(r.script("import time; time.sleep(600)", "other.py"), rank=1))
        row = read_process(first.pid)
        assert row is not None
        os.kill(row.parent_pid, signal.SIGSTOP)
        start = asyncio.create_task(r.workers.start(r.spec(name)))
        await asyncio.sleep(0.2)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        os.kill(row.parent_pid, signal.SIGCONT)
        await r.workers.start(r.spec(r.script("raise SystemExit(0)", "next.py"), rank=2))
        assert (await r.next_exit()).succeeded
        text = read(tmp_path / "pid")  # it may have been killed before its first line
        assert not text or await gone(int(text))
        assert r.workers.running() == (first,)


AGENT = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from worker_rig import rig
from test_worker_stop_real import daemons, DAEMONISES
from node_agent.application.ports import WorkerSource

async def main():
    async with rig(Path({folder!r}), WorkerSource({source!r})) as r:
        handle = await r.workers.start(r.spec(r.script(DAEMONISES.replace("END", ""))))
        pids = await daemons(r)
        Path({folder!r}, "pids").write_text(" ".join(map(str, [handle.pid, *pids])))
        os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.mark.asyncio
async def test_kill_9_of_the_agent_leaves_no_worker(tmp_path: Path, source: WorkerSource) -> None:
    code = AGENT.format(tests=str(Path(__file__).parent), folder=str(tmp_path), source=source.value)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await asyncio.wait_for(process.wait(), 30) == -9
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    # A spawned worker dies with the agent; only the nursery also reaches what daemonised away from it.
    promised = pids if source is WorkerSource.NURSERY else pids[:1]
    try:
        assert [await gone(pid) for pid in promised] == [True] * len(promised)
    finally:
        for pid in pids[1:]:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.asyncio
async def test_many_starts_leave_no_descriptor_behind(tmp_path: Path, source: WorkerSource) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    async with rig(tmp_path, source) as r:

        async def once(check: Callable[[WorkerHandle], None] = lambda _h: None) -> None:
            handle = await r.workers.start(r.spec(r.script("pass")))
            check(handle)
            await r.next_exit()
            await r.workers.stop([handle], grace_s=0)

        await once()
        before = count()
        for _ in range(5):
            await once()
        assert count() == before


@pytest.mark.asyncio
async def test_a_rank_that_died_just_before_the_stop_counts_as_a_death(tmp_path: Path, source: WorkerSource) -> None:
    """Its status is still on its way: who killed it is what the judge wants to know."""
    async with rig(tmp_path, source) as r:
        script = r.script("import time; print('up', flush=True); time.sleep(600)")
        dead, sibling = [await r.workers.start(r.spec(script, rank=rank)) for rank in (0, 1)]
        assert await r.text_of(r.stdout(0), "up")
        assert await r.text_of(r.stdout(1), "up")
        os.kill(dead.pid, signal.SIGKILL)
        row = read_process(dead.pid)
        while row is not None and row.alive:  # no await: the agent has heard nothing when it stops them
            row = read_process(dead.pid)
        outcome = await r.workers.stop([dead, sibling], grace_s=2.0)
        by_rank = {ended.handle.rank: ended for ended in outcome.exits}
        assert (by_rank[Rank(0)].requested, by_rank[Rank(0)].signal) == (False, signal.SIGKILL)
        assert by_rank[Rank(1)].requested

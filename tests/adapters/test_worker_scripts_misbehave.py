"""Scripts that do what scripts do: nothing they wrote is lost, nothing is left behind, and the agent goes on.

What they start (daemons, stubborn ones) is in test_worker_stop_real, odd bytes and exit codes are in
test_worker_processes_real.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from worker_rig import SOURCES, alive, gone, read, rig

from node_agent.adapters.worker_output import rank_files
from node_agent.application.ports import TerminalCopy, WorkerSource

pytestmark = pytest.mark.asyncio

QUIET = TerminalCopy(stdout=False, stderr=False)


@pytest.fixture(params=SOURCES, ids=str)
def source(request: pytest.FixtureRequest) -> WorkerSource:
    return WorkerSource(request.param)


async def test_ten_megabytes_without_a_newline_are_kept_and_shown_in_marked_pieces(
    tmp_path: Path, source: WorkerSource
) -> None:
    async with rig(tmp_path, source) as r:
        ended = await r.run("import sys\nfor s in (sys.stdout, sys.stderr): s.write('x' * 10_000_000)\nsys.exit(4)")
        assert ended.exit_code == 4
        await r.workers.stop([ended.handle], grace_s=0)
        assert r.stdout().stat().st_size == 10_000_000
        assert sum(map(len, ended.stderr_tail)) <= 50 * 4_096, "what is kept in memory is bounded"
        assert "[line continues]" in await r.text_of(r.terminal_file, "[line continues]")


async def test_a_rank_at_full_speed_loses_nothing_and_hides_no_siblings_end(
    tmp_path: Path, source: WorkerSource
) -> None:
    async with rig(tmp_path, source) as r:
        lines = 2_000_000
        flood = f"""
            import os, sys
            block = b"".join(b"%063d\\n" % n for n in range(1000))
            for n in range({lines // 1000}):
                sys.stdout.buffer.write(block)
            sys.stdout.flush()
            open("done", "w").close()
            os.write(2, b"all written\\n")
        """
        flooding = await r.workers.start(r.spec(r.script(flood, "flood.py"), terminal=QUIET))
        await r.text_of(r.stdout(0), "0")
        await r.workers.start(r.spec(r.script("raise SystemExit(9)", "other.py"), rank=1))
        ends = [await r.next_exit(), await r.next_exit()]
        assert {(e.handle.rank, e.exit_code) for e in ends} == {(0, 0), (1, 9)}
        await r.workers.stop([flooding], grace_s=0)
        assert r.stdout(0).stat().st_size == lines * 64


async def test_a_rank_that_closes_its_streams_lives_until_it_ends(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        script = """
            import os, time
            print("before", flush=True)
            os.close(1); os.close(2); os.closerange(3, 64)
            while not os.path.exists("go"):
                time.sleep(0.01)
            os._exit(6)
        """
        handle = await r.workers.start(r.spec(r.script(script)))
        await r.text_of(r.stdout(), "before")
        await asyncio.sleep(0.2)
        assert r.workers.running() == (handle,), "closed streams are no end"
        (tmp_path / "go").touch()
        assert (await r.next_exit()).exit_code == 6


async def test_removed_log_folder_is_told_and_made_anew(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        script = """
            import os, shutil, time
            print("before", flush=True)
            while not os.path.exists("go"):
                time.sleep(0.01)
            shutil.rmtree("logs")
            print("after", flush=True)
            raise RuntimeError("the last words")
        """
        await r.workers.start(r.spec(r.script(script)))
        await r.text_of(r.stdout(), "before\n")
        (tmp_path / "go").touch()
        ended = await r.next_exit()
        assert ended.exit_code == 1
        assert ended.error is not None
        assert (ended.error.type, ended.error.message) == ("RuntimeError", "the last words")
        await r.workers.stop([ended.handle], grace_s=0)
        assert read(r.stdout()) == "after\n"
        assert "the last words" in read(rank_files(tmp_path / "logs", "job", 1, 0).stderr)
        told = await r.text_of(r.terminal_file, "stderr.log was removed")
        assert told.count("stdout.log was removed while its rank was running; it was made anew") == 1


async def test_an_end_is_seen_while_a_grandchild_holds_the_pipe_and_nothing_is_left(
    tmp_path: Path, source: WorkerSource
) -> None:
    async with rig(tmp_path, source) as r:
        script = """
            import os, time
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    open("pid", "w").write(str(os.getpid()))
                    while not os.path.exists("go"):
                        time.sleep(0.01)
                    print("from the grave", flush=True)
                    time.sleep(600)
                os._exit(0)
            while not os.path.exists("pid") or not open("pid").read():
                time.sleep(0.01)
            print("parent done", flush=True)
            os._exit(3)
        """
        ended = await r.run(script)
        assert ended.exit_code == 3
        pid = int(read(tmp_path / "pid"))
        assert alive(pid)
        assert "parent done" in read(r.stdout())
        (tmp_path / "go").touch()
        assert "from the grave" in await r.text_of(r.stdout(), "from the grave")
        outcome = await r.workers.stop([ended.handle], grace_s=0.2)
        assert outcome.leftover_pids == ()
        assert await gone(pid)


async def test_a_rank_that_hangs_on_its_own_full_pipe_or_removed_folder_can_be_stopped(
    tmp_path: Path, source: WorkerSource
) -> None:
    async with rig(tmp_path, source) as r:
        full = """
            import os, subprocess
            print("up", flush=True)
            child = subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE)
            open("child", "w").write(str(child.pid))
            child.stdin.write(b"x" * 10_000_000)
        """
        homeless = """
            import os, time
            os.mkdir("home"); os.chdir("home"); os.rmdir("../home")
            print("up", flush=True)
            time.sleep(600)
        """
        handles = [
            await r.workers.start(r.spec(r.script(full, "full.py"), rank=0)),
            await r.workers.start(r.spec(r.script(homeless, "homeless.py"), rank=1)),
        ]
        child = int(await r.text_of(tmp_path / "child"))
        await r.text_of(r.stdout(1), "up")
        outcome = await r.workers.stop(handles, grace_s=5.0)
        assert [e.signal for e in outcome.exits] == [signal.SIGTERM] * 2
        assert await gone(child)
        assert {(await r.next_exit()).requested, (await r.next_exit()).requested} == {True}
        again = await r.run("import os; print(os.getcwd())", "x", rank=1)
        assert again.succeeded, "the agent's own place is where it was"
        assert str(tmp_path) in await r.text_of(r.stdout(1), str(tmp_path))


async def test_a_rank_that_changes_its_limits_and_mask_is_still_ended(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        script = """
            import os, resource, signal, time
            os.umask(0o777)
            resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            os.setpgid(0, 0) if os.getpgid(0) != os.getpid() else None
            print("up", flush=True)
            time.sleep(600)
        """
        handle = await r.workers.start(r.spec(r.script(script)))
        await r.text_of(r.stdout(), "up")
        outcome = await r.workers.stop([handle], grace_s=0.3)
        assert outcome.exits[0].signal == signal.SIGKILL
        assert await gone(handle.pid)

"""ProcessWorkers on real processes, once through the nursery and once through spawn: same behaviour from both."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from node_agent.adapters.terminal import Terminal
from node_agent.adapters.worker_output import rank_files
from node_agent.adapters.worker_processes import ProcessWorkers
from node_agent.application.ports import (
    ProgramKind,
    StandbyReport,
    WorkerExit,
    WorkerHandle,
    WorkerSource,
    WorkerSpec,
    WorkerStartError,
)
from service_kit.clock import SystemClock
from training_topology.identity import LocalRank, Rank
from worker_link.linux import STACK_DUMP_SIGNAL
from worker_link.process_tree import read_process

SOURCES = [WorkerSource.NURSERY, WorkerSource.SPAWN]


class Rig:
    """ProcessWorkers with exits collected and scripts at hand."""

    def __init__(self, workers: ProcessWorkers, folder: Path, terminal_file: Path) -> None:
        self.workers = workers
        self.folder = folder
        self.terminal_file = terminal_file
        self.report = StandbyReport(ready=False)
        self.exits: asyncio.Queue[WorkerExit] = asyncio.Queue()
        workers.on_exit(self.exits.put_nowait)

    def script(self, text: str, name: str = "train.py") -> str:
        (self.folder / name).write_text(textwrap.dedent(text))
        return name

    def spec(self, program: str, *args: str, rank: int = 0, **more: object) -> WorkerSpec:
        fields: dict[str, object] = {
            "rank": Rank(rank),
            "local_rank": LocalRank(rank),
            "topology_version": 1,
            "program": program,
            "args": args,
            "env": {**os.environ, "RANK": str(rank), "PYTHONPATH": str(self.folder)},
            "cwd": self.folder,
            "files": rank_files(self.folder / "logs", "job", 1, rank),
        }
        return WorkerSpec(**{**fields, **more})  # type: ignore[arg-type]

    async def run(self, text: str, *args: str, **more: object) -> WorkerExit:
        await self.workers.start(self.spec(self.script(text), *args, **more))
        return await self.next_exit()

    async def next_exit(self) -> WorkerExit:
        async with asyncio.timeout(20):
            return await self.exits.get()

    async def text_of(self, file: Path, wanted: str = "") -> str:
        """The file once it holds the wanted text."""
        deadline = time.monotonic() + 15
        while True:
            text = read(file)
            if (text and wanted in text) or time.monotonic() > deadline:
                return text
            await asyncio.sleep(0.02)

    def stdout(self, rank: int = 0) -> Path:
        return rank_files(self.folder / "logs", "job", 1, rank).stdout


@asynccontextmanager
async def rig(
    folder: Path, source: WorkerSource, preload: tuple[str, ...] = ("json",), *, ready: bool | None = None
) -> AsyncIterator[Rig]:
    terminal_file = folder / "terminal.txt"
    with terminal_file.open("wb") as file:
        terminal = Terminal(stdout_fd=file.fileno(), stderr_fd=file.fileno())
        workers = ProcessWorkers(
            clock=SystemClock(),
            terminal=terminal,
            standby=source is WorkerSource.NURSERY,
            preload=preload,
            nursery_log=folder / "nursery.log",
        )
        try:
            report = await workers.prepare({**os.environ, "PYTHONPATH": str(folder)})
            assert report.ready is (source is WorkerSource.NURSERY if ready is None else ready), report
            r = Rig(workers, folder, terminal_file)
            r.report = report
            yield r
        finally:
            await workers.close()
            terminal.close()


def read(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def alive(pid: int) -> bool:
    row = read_process(pid)
    return row is not None and row.alive


async def gone(pid: int, within_s: float = 3.0) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


@pytest.fixture(params=SOURCES, ids=str)
def source(request: pytest.FixtureRequest) -> WorkerSource:
    return WorkerSource(request.param)


@pytest.mark.asyncio
async def test_exit_codes_and_signals_are_what_they_are(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        three = await r.run("import sys; sys.exit(3)")
        assert (three.exit_code, three.signal, three.handle.source) == (3, None, source)
        assert (await r.run("print('fine')")).succeeded
        text = await r.run("import sys; sys.exit('no data here')")
        assert text.exit_code == 1
        assert text.stderr_tail == ("no data here",)
        killed = await r.run("import os; os.kill(os.getpid(), 9)")
        assert (killed.exit_code, killed.signal, killed.status) == (None, 9, "SIGKILL")
        assert not killed.requested
        crashed = await r.run("import ctypes; ctypes.string_at(0)")
        assert crashed.signal == signal.SIGSEGV
        assert any("Segmentation fault" in line for line in crashed.stderr_tail)
        assert (await r.run("raise KeyboardInterrupt")).signal == signal.SIGINT
        assert (await r.run("import os; os._exit(255)")).exit_code == 255


@pytest.mark.asyncio
async def test_exception_is_shown_as_by_python_and_recorded(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        ended = await r.run(
            "import atexit; atexit.register(print, 'atexit ran')\n"
            "def step(n):\n    raise RuntimeError(f'bad batch {n}')\nstep(7)\n"
        )
        assert ended.exit_code == 1
        script = tmp_path / "train.py"
        assert ended.stderr_tail[:2] == (
            "Traceback (most recent call last):",
            f'  File "{script}", line 4, in <module>',
        )
        assert ended.stderr_tail[-1] == "RuntimeError: bad batch 7"
        assert r.stdout().read_text() == "atexit ran\n"
        assert ended.error is not None
        assert (ended.error.source, ended.error.type, ended.error.message) == (
            "error_file",
            "RuntimeError",
            "bad batch 7",
        )
        assert ended.error.frames[-1].endswith("train.py:3 in step: raise RuntimeError(f'bad batch {n}')")


@pytest.mark.asyncio
async def test_script_sees_what_python_would_give_it(tmp_path: Path, source: WorkerSource) -> None:
    probe = """
        import atexit, json, os, sys
        atexit.register(print, "atexit ran")
        import signal
        main = sys.modules["__main__"]
        print(json.dumps({
            "argv": sys.argv, "path0": sys.path[0], "name": __name__, "file": __file__, "spec": str(main.__spec__),
            "mine": main.__dict__ is globals(), "cwd": os.getcwd(), "pgid": os.getpgid(0) == os.getpid(),
            "sid": os.getsid(0) == os.getpid(), "env": sorted(os.environ), "fds": len(os.listdir("/proc/self/fd")),
            "term": signal.getsignal(15).value, "blocked": len(signal.pthread_sigmask(0, ())),
        }), end="")
    """
    import json

    async with rig(tmp_path, source) as r:
        inner = tmp_path / "src"
        inner.mkdir()
        name = r.script(probe, "src/probe.py")
        await r.workers.start(r.spec(name, "--lr", "1", "-m", env={"ONLY": "this", "PATH": os.environ["PATH"]}))
        assert (await r.next_exit()).succeeded
        line, _, rest = r.stdout().read_text().partition("}")
        seen = json.loads(line + "}")
        assert rest == "atexit ran\n"
        assert seen["argv"] == ["src/probe.py", "--lr", "1", "-m"]
        assert seen["path0"] == str(inner)
        assert (seen["name"], seen["file"], seen["spec"]) == ("__main__", str(inner / "probe.py"), "None")
        assert seen["mine"]
        assert seen["cwd"] == str(tmp_path)
        assert seen["sid"]
        assert seen["pgid"]
        assert set(seen["env"]) - {"LC_CTYPE"} == {"ONLY", "PATH", "PHALANX_WORKER_ID", "TORCHELASTIC_ERROR_FILE"}
        assert seen["fds"] == 5  # stdio, the stacks file, and the listing itself
        assert (seen["term"], seen["blocked"]) == (0, 0)


@pytest.mark.asyncio
async def test_module_and_executable(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        (tmp_path / "package").mkdir()
        (tmp_path / "package/__main__.py").write_text("import sys; print(sys.argv[1:], __spec__.name, __package__)")
        await r.workers.start(r.spec("package", "a", kind=ProgramKind.MODULE))
        assert (await r.next_exit()).succeeded
        assert r.stdout().read_text() == "['a'] package.__main__ package\n"
        await r.workers.start(r.spec("sh", "-c", "echo $RANK >&2; exit 9", kind=ProgramKind.EXECUTABLE, rank=1))
        ended = await r.next_exit()
        assert (ended.exit_code, ended.stderr_tail) == (9, ("1",))
        await r.workers.start(r.spec("no-such-program", kind=ProgramKind.EXECUTABLE, rank=1))
        ended = await r.next_exit()
        assert ended.exit_code == 127
        assert "no-such-program" in ended.stderr_tail[-1]


@pytest.mark.asyncio
async def test_missing_script_is_refused_with_its_path(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        with pytest.raises(WorkerStartError, match=r"script nowhere\.py does not exist"):
            await r.workers.start(r.spec("nowhere.py"))
        await r.workers.start(r.spec("no.such.module", kind=ProgramKind.MODULE))
        ended = await r.next_exit()
        assert ended.exit_code == 1
        assert "no.such" in ended.stderr_tail[-1]


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
async def test_multiprocessing_fork_and_spawn_work(tmp_path: Path, source: WorkerSource) -> None:
    script = """
        import multiprocessing as mp, sys
        def square(x):
            return x * x
        class Thing:
            pass
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                with mp.get_context(method).Pool(1) as pool:
                    print(method, pool.map(square, [3]), pool.apply(type, (Thing(),)).__module__, flush=True)
    """
    async with rig(tmp_path, source) as r:
        ended = await r.run(script)
        assert ended.succeeded, ended.stderr_tail
        assert r.stdout().read_text() == "fork [9] __main__\nspawn [9] __main__\n"


@pytest.mark.asyncio
async def test_relative_script_from_module_spawns_children(tmp_path: Path, source: WorkerSource) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("")
    (tmp_path / "pkg/job.py").write_text(
        "import multiprocessing as mp\ndef f(x): return x + 1\n"
        "if __name__ == '__main__':\n    print(mp.get_context('spawn').Pool(1).map(f, [1]))\n"
    )
    async with rig(tmp_path, source) as r:
        await r.workers.start(r.spec("pkg.job", kind=ProgramKind.MODULE))
        ended = await r.next_exit()
        assert ended.succeeded, ended.stderr_tail
        assert r.stdout().read_text() == "[2]\n"


@pytest.mark.asyncio
async def test_output_is_kept_byte_by_byte_and_shown_by_line(tmp_path: Path, source: WorkerSource) -> None:
    script = r"""
        import os, sys
        sys.stdout.buffer.write(bytes(range(256)) + b"\nhalf")
        sys.stdout.flush()
        os.write(2, b"x" * 100_000 + b"\nlast without newline")
        os.close(1); os.close(2)
    """
    async with rig(tmp_path, source) as r:
        ended = await r.run(script)
        outcome = await r.workers.stop([ended.handle], grace_s=0)
        assert outcome.leftover_pids == ()
        assert r.stdout().read_bytes() == bytes(range(256)) + b"\nhalf"
        assert ended.stderr_tail[-1] == "last without newline"
        terminal = (await r.text_of(r.terminal_file, "last without")).splitlines()
        shown = r.terminal_file.read_bytes().split(b"\n")
        assert b"[0]: half" in shown
        assert b"[0]: last without newline" in shown
        assert sum(line.endswith(b"[line continues]") for line in shown) == 6
        assert terminal


@pytest.mark.asyncio
async def test_stack_dump_lands_in_the_stacks_file(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        script = "import time\ndef stuck_here():\n    print('up', flush=True)\n    time.sleep(600)\nstuck_here()\n"
        handle = await r.workers.start(r.spec(r.script(script)))
        await r.text_of(r.stdout(), "up")
        assert handle.stacks_on_signal
        assert r.workers.signal(handle, STACK_DUMP_SIGNAL)
        stacks = await r.text_of(rank_files(tmp_path / "logs", "job", 1, 0).stacks, "<module>")
        assert "in stuck_here" in stacks
        assert r.workers.running() == (handle,)


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


AGENT = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_worker_processes_real import rig, daemons, DAEMONISES
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

"""A worker is what python would have made of the script: once through the nursery and once through spawn."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from worker_rig import SOURCES, read, rig

from node_agent.adapters.worker_output import rank_files
from node_agent.application.ports import (
    ProgramKind,
    WorkerSource,
    WorkerStartError,
)
from worker_link.linux import STACK_DUMP_SIGNAL


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
async def test_folder_and_syntax_error_behave_as_in_python(tmp_path: Path, source: WorkerSource) -> None:
    async with rig(tmp_path, source) as r:
        (tmp_path / "app").mkdir()
        (tmp_path / "app/beside.py").write_text("value = 5")
        (tmp_path / "app/__main__.py").write_text("import beside, sys; print(beside.value, sys.argv)")
        await r.workers.start(r.spec("app", "x"))
        assert (await r.next_exit()).succeeded
        assert read(r.stdout()) == "5 ['app', 'x']\n"
        broken = await r.run("def f(:\n    pass")
        assert broken.exit_code == 1
        assert broken.stderr_tail[0] == f'  File "{tmp_path / "train.py"}", line 1'
        assert broken.error is not None
        assert broken.error.type == "SyntaxError"


@pytest.mark.asyncio
async def test_a_traceback_that_the_script_had_caught_does_not_explain_a_kill(
    tmp_path: Path, source: WorkerSource
) -> None:
    async with rig(tmp_path, source) as r:
        script = """
            import sys, time, traceback
            try:
                raise RuntimeError("Connection closed by peer")
            except RuntimeError:
                traceback.print_exc()
            print("up", flush=True)
            time.sleep(600)
        """
        handle = await r.workers.start(r.spec(r.script(script)))
        assert await r.text_of(r.stdout(0), "up")
        os.kill(handle.pid, signal.SIGKILL)
        ended = await r.next_exit()
        assert (ended.signal, ended.error) == (signal.SIGKILL, None)

"""Children that cannot outlive their parent, with real processes and real signals."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx_cli.stack import exec_guard, guard
from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec
from phalanx_cli.stack.identity import ProcessIdentity, identify

pytestmark = pytest.mark.integration

IGNORES_SIGTERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


def spec_of(tmp_path: Path, code: str, *arguments: str, tied: bool = True) -> ProcessSpec:
    argv = (sys.executable, "-c", code, *arguments)
    return ProcessSpec(name="child", argv=argv, log_path=tmp_path / "child.log", dies_with_parent=tied)


def wait_for_log(path: Path, text: str) -> str:
    deadline = time.monotonic() + 10
    while text not in (log := path.read_text()):
        assert time.monotonic() < deadline, f"{text!r} never came in {log!r}"
        time.sleep(0.01)
    return log


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    child = GuardedProcess(spec_of(tmp_path, IGNORES_SIGTERM))
    wait_for_log(tmp_path / "child.log", "up")
    started_at = time.monotonic()
    child.stop(grace_s=0.2)
    assert child.ending == "SIGKILL"
    assert 0.2 <= time.monotonic() - started_at < 2.0


def test_sigterm_ends_a_child_whose_parent_ignored_and_blocked_it(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        child = GuardedProcess(spec_of(tmp_path, "import time; print('up', flush=True); time.sleep(600)"))
        wait_for_log(tmp_path / "child.log", "up")
        child.stop(grace_s=10)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        signal.signal(signal.SIGTERM, before)
    assert child.ending == "SIGTERM"


def test_stop_takes_the_grandchildren_along(tmp_path: Path, assert_gone: Callable[..., None]) -> None:
    code = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print('grandchild', p.pid, flush=True); time.sleep(600)"
    )
    child = GuardedProcess(spec_of(tmp_path, code))
    grandchild = int(wait_for_log(tmp_path / "child.log", "\n").split()[1])
    child.stop(grace_s=5)
    assert_gone([child.pid, grandchild])


@pytest.mark.asyncio
async def test_wait_sees_the_exit_code_at_once_and_for_every_waiter(tmp_path: Path) -> None:
    child = GuardedProcess(spec_of(tmp_path, "import sys; sys.exit(3)"))
    assert await asyncio.gather(child.wait(), child.wait()) == [3, 3]
    assert await child.wait() == 3
    assert child.ending == "exit code 3"
    await child.stop_async(grace_s=1)  # ended already: nothing to do, nothing to raise


@pytest.mark.asyncio
async def test_a_cancelled_stop_kills(tmp_path: Path) -> None:
    child = GuardedProcess(spec_of(tmp_path, IGNORES_SIGTERM))
    wait_for_log(tmp_path / "child.log", "up")
    stopping = asyncio.create_task(child.stop_async(grace_s=60))
    await asyncio.sleep(0.05)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert child.ending == "SIGKILL"


def test_a_child_whose_parent_died_before_the_tie_never_runs(tmp_path: Path) -> None:
    shim = [sys.executable, "-I", "-S", exec_guard.__file__, "1", sys.executable, "-c", "print('ran')"]
    done = subprocess.run(shim, capture_output=True, timeout=20, check=False)
    assert done.returncode == exec_guard.EXIT_ORPHANED
    assert done.stdout == b""


def test_a_program_that_is_not_there_says_so_in_the_log(tmp_path: Path) -> None:
    child = GuardedProcess(ProcessSpec(name="x", argv=("/no/such/program",), log_path=tmp_path / "x.log"))
    asyncio.run(child.wait())
    assert child.returncode == exec_guard.EXIT_NOT_FOUND
    assert "/no/such/program: No such file or directory" in (tmp_path / "x.log").read_text()


def test_an_oversized_log_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LOG_BYTES_MAX", 10)
    (tmp_path / "child.log").write_text("much too long")
    child = GuardedProcess(spec_of(tmp_path, "print('new')"))
    asyncio.run(child.wait())
    assert (tmp_path / "child.log").read_text() == "new\n"
    assert (tmp_path / "child.log.1").read_text() == "much too long"


def test_a_log_that_cannot_be_opened_is_a_stack_error(tmp_path: Path) -> None:
    (tmp_path / "child.log").mkdir()
    with pytest.raises(StackError, match="child cannot be started"):
        GuardedProcess(spec_of(tmp_path, "pass"))


def test_a_process_that_took_over_the_pid_is_neither_signalled_nor_waited_for(tmp_path: Path) -> None:
    child = GuardedProcess(spec_of(tmp_path, "import time; time.sleep(600)"))
    try:
        real = identify(child.pid)
        assert real is not None
        assert real.is_alive()
        for earlier in (
            ProcessIdentity(pid=real.pid, start_ticks=real.start_ticks - 1, boot_id=real.boot_id),
            ProcessIdentity(pid=real.pid, start_ticks=real.start_ticks, boot_id="another boot"),
        ):
            assert not earlier.is_alive()
            assert earlier.signal(signal.SIGKILL) is False
            assert earlier.wait_gone(0)
            assert earlier.age_s() is None
        assert child.returncode is None
        assert real.signal(signal.SIGKILL) is True
        assert real.wait_gone(5)
    finally:
        child.kill()

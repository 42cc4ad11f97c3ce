"""`phalanx run` as a person uses it on a stack that stays: mistakes, names used again, Ctrl-C, closed pipes."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_process import AgentProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240), pytest.mark.asyncio]

CLI = [sys.executable, "-P", "-m", "phalanx_cli.main"]
RUN = ["-m", "phalanx_cli.main", "run", "--no-standby"]
SCRIPTS = {
    "ok.py": "print('fine', flush=True)\n",
    "bug.py": "raise ValueError('no such shard')\n",
    "syntax.py": "def f(:\n    pass\n",
    "library.py": "def main():\n    print('never called')\n",
    "sleep.py": "import time\nprint('up', flush=True)\ntime.sleep(600)\n",
    "stubborn.py": (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(600)\n"
    ),
    "stdin.py": "import sys\nprint('read', repr(sys.stdin.read()), flush=True)\n",
}


@pytest.fixture(scope="module")
def stack_env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A developer's stack for all tests of this file: what its users have in their environment."""
    folder = tmp_path_factory.mktemp("stack")
    env = {name: value for name, value in os.environ.items() if name not in ("NATS_URL", "REDIS_URL")}
    subprocess.run([*CLI, "up", "--data-dir", str(folder)], check=True, env=env, capture_output=True, timeout=120)
    yield {"NATS_URL": json.loads((folder / "stack.json").read_text())["nats_url"]}
    subprocess.run([*CLI, "down", "--data-dir", str(folder)], check=True, env=env, capture_output=True, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in SCRIPTS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def worker_of(agent: int, script: str) -> int:
    """The pid of the agent's only rank."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    [worker] = [int(pid) for pid in children if script.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return worker


def folders_with_logs(folder: Path) -> set[str]:
    """The top folders in which ranks' output lies."""
    return {path.relative_to(folder).parts[0] for path in folder.rglob("stdout.log")}


async def ended(folder: Path, env: dict[str, str], *argv: str) -> tuple[int, str]:
    """Exit code and everything said."""
    async with AgentProcess([*RUN, *argv], cwd=folder, env=env) as run:
        code = await run.exit_code(timeout_s=60)
    assert not [line for line in run.lines if line.startswith("Traceback")], "a rank's is marked [0]; ours has no place"
    return code, run.text


async def test_a_job_id_may_be_used_again_after_success_and_after_failure(
    folder: Path, stack_env: dict[str, str]
) -> None:
    outcomes = []
    for script in ("ok.py", "ok.py", "bug.py", "ok.py"):
        code, text = await ended(folder, stack_env, "--job-id", "again", "--max-restarts", "1", script)
        outcomes.append(code)
        assert ("[0]: fine" in text) == (script == "ok.py")
    assert outcomes == [0, 0, 1, 0]


async def test_two_runs_at_once_in_one_folder_do_not_meet(folder: Path, stack_env: dict[str, str]) -> None:
    for code, text in await asyncio.gather(*(ended(folder, stack_env, "ok.py") for _ in range(2))):
        assert code == 0
        assert text.count("[0]: fine") == 1


async def test_a_syntax_error_is_the_users_at_once_without_a_restart(folder: Path, stack_env: dict[str, str]) -> None:
    code, text = await ended(folder, stack_env, "syntax.py")
    assert code == 1
    assert "the fault is in the training script" in text
    assert "SyntaxError" in text
    assert "restarted" not in text


async def test_a_script_without_a_main_block_is_a_success(folder: Path, stack_env: dict[str, str]) -> None:
    code, text = await ended(folder, stack_env, "library.py")
    assert (code, "job succeeded" in text) == (0, True)


async def test_odd_names_work_and_give_plain_folders(folder: Path, stack_env: dict[str, str]) -> None:
    code, text = await ended(folder, stack_env, "--job-id", "we ird/../j.ob*>ü", "ok.py")
    assert code == 0
    assert "[0]: fine" in text
    assert folders_with_logs(folder) == {".phalanx"}, (
        "a name with slashes and dots does not lead out of the data folder"
    )


async def test_a_restart_says_whose_fault_it_was(folder: Path, stack_env: dict[str, str]) -> None:
    async with AgentProcess([*RUN, "sleep.py"], cwd=folder, env=stack_env) as run:
        await run.wait_line("]: up")
        os.kill(worker_of(run.pid, "sleep.py"), signal.SIGKILL)
        restarted = await run.wait_line("phalanx: restarted rank 0 of 1")
        before = run.lines[run.lines.index(restarted) - 1]
        assert re.match(r"phalanx: verdict: platform, \w+: .*SIGKILL", before), before
        run.signal(signal.SIGINT)
        assert await run.exit_code() == 130


async def test_one_ctrl_c_stops_in_order_and_a_second_one_kills(folder: Path, stack_env: dict[str, str]) -> None:
    async with AgentProcess([*RUN, "sleep.py"], cwd=folder, env=stack_env) as run:
        await run.wait_line("]: up")
        run.signal(signal.SIGINT)
        assert await run.exit_code(timeout_s=20) == 130
    assert "SIGINT: stopping 1 rank" in run.text
    async with AgentProcess([*RUN, "stubborn.py"], cwd=folder, env=stack_env) as run:
        await run.wait_line("]: up")
        run.signal(signal.SIGINT)
        await run.wait_line("SIGINT: stopping 1 rank")
        run.signal(signal.SIGINT)
        assert await run.exit_code(timeout_s=20) == 130
    assert "SIGINT again: killing" in run.text


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stdout and stderr"])
async def test_closed_streams_do_not_disturb(folder: Path, stack_env: dict[str, str], closed: str) -> None:
    marks = folder / "done"
    (folder / "mark.py").write_text(f"print('x\\n' * 5000)\nopen({str(marks)!r}, 'w').write('done')\n")
    program = " ".join([*CLI, "run", "--no-standby", "mark.py"])
    shell = {
        "stdin": f"{program} <&-; echo rc=$? >rc",
        "stdout": f"({program} 2>err; echo rc=$? >rc) | head -1",
        "stdout and stderr": f"({program} 2>&1; echo rc=$? >rc) | head -1",
    }[closed]
    process = await asyncio.create_subprocess_shell(
        shell, cwd=folder, env={**os.environ, **stack_env}, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        await process.communicate()
    assert (folder / "rc").read_text() == "rc=0\n"
    assert marks.read_text() == "done", "the job went on to its end"

"""The scripts in examples/ do what their first lines say."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 180.0


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [
        *(sys.executable, "-P", "-m", "phalanx_cli.main", "run", "--nproc-per-node", "2", "--data-dir", str(tmp_path)),
        *(str(EXAMPLES / "ddp_torchrun.py"), "--checkpoint", str(tmp_path / "ddp.pt"), "--steps", "120"),
    ]
    with (tmp_path / "terminal.log").open("w") as log:
        process = subprocess.Popen(argv, cwd=tmp_path, stdout=log, stderr=log, text=True, start_new_session=True)
    yield process
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(45)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def test_an_unmodified_ddp_script_survives_the_kill_of_a_rank(tmp_path: Path, job: subprocess.Popen[str]) -> None:
    checkpoint, terminal = tmp_path / "ddp.pt", tmp_path / "terminal.log"
    end_s = time.monotonic() + LIMIT_S
    while not checkpoint.exists():
        assert job.poll() is None, terminal.read_text()
        assert time.monotonic() < end_s, terminal.read_text()
        time.sleep(0.1)
    pid = re.search(r"rank 1 of 2 pid (\d+)", "".join(path.read_text() for path in tmp_path.rglob("stdout.log")))
    assert pid is not None
    os.kill(int(pid[1]), signal.SIGKILL)
    assert job.wait(LIMIT_S) == 0, terminal.read_text()
    told = "".join(path.read_text() for path in tmp_path.rglob("stdout.log"))
    starts = sorted({int(step) for step in re.findall(r"rank 1 of 2 pid \d+ starts at step (\d+)", told)})
    assert starts[0] == 1
    assert len(starts) == 2
    assert starts[1] % 20 == 1, "the second generation goes on after a checkpoint"

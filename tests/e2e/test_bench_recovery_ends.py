"""tools/bench_recovery.py leaves nothing behind when it is told to end, not even torchrun's ranks."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

BENCH = Path(__file__).parents[2] / "tools" / "bench_recovery.py"


def at_work(folder: Path) -> list[int]:
    """Processes that were started for a job under this folder."""
    mark, found = f"BENCH_DIR={folder}".encode(), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it ended meanwhile, or is not ours
    return found


def test_told_to_end_it_ends_the_ranks_that_would_outlive_their_agents(tmp_path: Path) -> None:
    argv = [sys.executable, str(BENCH), "--only", "torchrun", "--faults", "kill", "--rounds", "1"]
    with (tmp_path / "bench.log").open("w") as log:
        bench = subprocess.Popen(
            argv, cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=log, stderr=log
        )
    try:
        end_s = time.monotonic() + 200
        while not any(path.stat().st_size for path in tmp_path.rglob("events.jsonl")):  # a rank notes that it is there
            assert bench.poll() is None, (tmp_path / "bench.log").read_text()
            assert time.monotonic() < end_s, (tmp_path / "bench.log").read_text()
            time.sleep(0.1)
        assert len(at_work(tmp_path)) > 2
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(60) == 130, (tmp_path / "bench.log").read_text()
        assert at_work(tmp_path) == []
    finally:
        bench.kill()
        bench.wait()
        for pid in at_work(tmp_path):
            os.kill(pid, signal.SIGKILL)

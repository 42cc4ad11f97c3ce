"""Logs of a real torchrun, read by `phalanx diagnose`: the rank that raised is found among those that lost it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]  # torch is imported three times

SCRIPT = """\
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    dist.init_process_group("gloo")
    for step in range(20):
        dist.all_reduce(torch.ones(4))
        print(f"step {step} loss {1 / (step + 1):.3f}", flush=True)
        if dist.get_rank() == 1 and step == 10:
            torch.zeros(3)[7]

main()
"""


def diagnose(*arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "phalanx_cli.main", "diagnose", "--format", "json", *arguments],
        capture_output=True, check=False, timeout=120, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


def test_log_dir_and_console_of_torchrun(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    launched = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--log-dir=logs",
         "--redirects=3", "--tee=3", "train.py"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=240,
    )  # fmt: skip
    assert launched.returncode != 0
    (tmp_path / "console.log").write_bytes(launched.stdout)
    for path in ("logs", "console.log"):
        report = diagnose(str(tmp_path / path))
        assert (report["attribution"], report["cause"]) == ("user", "index_out_of_range")
        culprit = report["culprit"]
        assert isinstance(culprit, dict)
        assert culprit["rank"] == 1

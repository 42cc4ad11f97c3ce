"""The first example: an NCCL time-out whose cause is a data loader that stalled. No machine is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx_cli.commands.app import app

STALLED = 5
TIMED_OUT = """\
[rank{rank}]:[E901 12:30:04.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum=8812, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=1800000) ran for 1800021 \
milliseconds before timing out.
[rank{rank}]:[E901 12:30:04.2 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] failure detected \
by watchdog at work sequence id: 8812 PG status: last enqueued work: 8812, last completed work: 8811
"""
STACK = """\
Current thread 0x00007f1a2b3c4d5e (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1290 in _try_get_data
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 708 in __next__
  File "/app/train.py", line 88 in main
"""


def stalled_job(folder: Path, *, stack: str) -> Path:
    """Eight ranks on two nodes; rank 5 is in its loader while the others wait in an all-reduce."""
    logs = folder / "logs"
    logs.mkdir()
    for rank in range(8):
        name = f"node0{rank // 4}_rank_{rank}"
        (logs / f"{name}.out").write_text("".join(f"2026-09-01 12:00:0{n},000 INFO step {n}\n" for n in (1, 2, 3)))
        (logs / f"{name}.err").write_text(stack if rank == STALLED else TIMED_OUT.format(rank=rank))
    return logs


def test_the_loader_is_blamed_and_no_machine(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["diagnose", "--format", "json", str(stalled_job(tmp_path, stack=STACK))])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["attribution"], report["cause"]) == ("user", "dataloader_stall")
    assert report["action"] == "dont_retry_notify_user"
    assert (report["culprit"]["rank"], report["culprit"]["node_id"]) == (STALLED, "node01")


@pytest.mark.parametrize("stack", ["", "Current thread 0x1 (most recent call first):\n"], ids=["silent", "cut"])
def test_without_its_stack_nobody_is_blamed_for_certain_and_no_machine_is_touched(tmp_path: Path, stack: str) -> None:
    result = CliRunner().invoke(
        app, ["diagnose", "--format", "json", str(stalled_job(tmp_path, stack=stack or "starting\n"))]
    )
    report = json.loads(result.stdout)
    assert report["attribution"] not in ("hardware", "driver")
    assert report["action"] not in ("replace_node", "reboot_node", "reset_gpu")

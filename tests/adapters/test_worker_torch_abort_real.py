"""Clearing torch.distributed away with the real torch: a rank whose join failed meets one that never joined before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)

RANK_0 = """
import datetime, os, sys
import torch.distributed as dist
from worker_link.torch_abort import destroy_process_groups

limit = datetime.timedelta(seconds=float(sys.argv[1]))
store = dist.FileStore(sys.argv[2] + ".first", 2)
try:
    dist.init_process_group("gloo", store=store, rank=0, world_size=2, timeout=datetime.timedelta(seconds=0.2))
except RuntimeError:
    print("nobody came", flush=True)
assert destroy_process_groups() is False
store = dist.FileStore(sys.argv[2] + ".second", 2)
dist.init_process_group("gloo", store=store, rank=0, world_size=2, timeout=limit)
print("met", flush=True)
"""
RANK_1 = """
import datetime, sys
import torch.distributed as dist

limit = datetime.timedelta(seconds=float(sys.argv[1]))
store = dist.FileStore(sys.argv[2] + ".second", 2)
dist.init_process_group("gloo", store=store, rank=1, world_size=2, timeout=limit)
print("met", flush=True)
"""


def test_a_rank_whose_join_failed_meets_one_with_a_new_process(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, "60", str(tmp_path / "store")],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for code in (RANK_0, RANK_1)
    ]
    said = [rank.communicate(timeout=150)[0] for rank in ranks]
    assert said[0].splitlines() == ["nobody came", "met"], said[0]
    assert said[1].splitlines() == ["met"], said[1]

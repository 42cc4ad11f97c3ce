"""A nursery that has torch: what forked workers must be able to do, and how soon they run."""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path

import pytest
from worker_rig import read, rig

from node_agent.adapters.standby import DEFAULT_PRELOAD
from node_agent.application.ports import WorkerSource

LOADS = """
    import json, random, sys, time
    first_line_s = time.monotonic()
    fresh = "torch" not in sys.modules
    import numpy, torch
    from torch.distributed.elastic.multiprocessing.errors import record
    from torch.utils.data import DataLoader, Dataset

    class Squares(Dataset):
        def __len__(self): return 8
        def __getitem__(self, i): return torch.tensor(i * i)

    @record
    def main():
        loaded = {
            method: sorted(int(x) for batch in DataLoader(Squares(), num_workers=1, multiprocessing_context=method)
                           for x in batch)
            for method in ("fork", "spawn")
        }
        seen = {"first_line_s": first_line_s, "fresh": fresh, "loaded": loaded, "numpy": float(numpy.random.rand()),
                "random": random.random(), "torch": float(torch.rand(1)),
                "matmul": float((torch.ones(64, 64) @ torch.ones(64, 64)).sum())}
        print(json.dumps(seen), flush=True)
        raise ValueError("recorded by torch")

    if __name__ == "__main__":
        main()
"""

QUICK = """
    import sys, time
    print(time.monotonic(), flush=True)
    raise RuntimeError("soon known")
"""


@pytest.mark.asyncio
@pytest.mark.e2e
async def test_torch_worker_from_the_nursery(tmp_path: Path) -> None:
    async with rig(tmp_path, WorkerSource.NURSERY, preload=(*DEFAULT_PRELOAD, "numpy.random")) as r:
        assert r.report.preloaded == (*DEFAULT_PRELOAD, "numpy.random"), r.report
        script = r.script(LOADS)
        for rank in (0, 1):
            await r.workers.start(r.spec(script, rank=rank))
        for _ in (0, 1):
            ended = await r.next_exit()
            assert ended.exit_code == 1
            assert ended.error is not None, ended.stderr_tail
            assert (ended.error.source, ended.error.type) == ("error_file", "ValueError"), ended.stderr_tail
        seen = [json.loads(read(r.stdout(rank))) for rank in (0, 1)]
        squares = [n * n for n in range(8)]
        assert seen[0]["loaded"] == {"fork": squares, "spawn": squares}
        assert not seen[0]["fresh"]
        assert seen[0]["matmul"] == 64.0**3
        # As in fresh interpreters: Python and numpy differ between ranks, torch has its fixed default seed.
        assert seen[0]["numpy"] != seen[1]["numpy"]
        assert seen[0]["random"] != seen[1]["random"]
        assert seen[0]["torch"] == seen[1]["torch"]

        first_lines_ms, known_ms = [], []
        quick = r.script(QUICK, "quick.py")
        for _ in range(5):
            r.stdout().unlink(missing_ok=True)
            began = time.monotonic()
            await r.workers.start(r.spec(quick))
            ended = await r.next_exit()
            known = time.monotonic()
            at = float(read(r.stdout()))
            first_lines_ms.append((at - began) * 1e3)
            known_ms.append((known - at) * 1e3)
            assert ended.error is not None
        print(f"start to first line {first_lines_ms} ms; raise to known {known_ms} ms; cpus {os.cpu_count()}")
        # 12 and 15 ms on an idle machine; importing torch anew would take seconds.
        assert statistics.median(first_lines_ms) < 250
        assert statistics.median(known_ms) < 250

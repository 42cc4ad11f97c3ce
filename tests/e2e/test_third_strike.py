"""`phalanx demo --faults third-strike`: a node whose GPU fails a third time is replaced, and the GPU is listed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from phalanx_cli.drill.fake_library import NoCompiler, find_compiler

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(500)]


def test_the_third_strike_replaces_the_node_lists_its_gpu_and_another_comes(tmp_path: Path) -> None:
    try:
        find_compiler()
    except NoCompiler as error:
        pytest.skip(str(error))
    argv = [sys.executable, "-P", "-m", "phalanx_cli.main", "demo", "--data-dir", str(tmp_path), "--json"]
    done = subprocess.run([*argv, "--faults", "third-strike"], capture_output=True, text=True, timeout=450, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    result = json.loads(done.stdout)
    assert result["held"] is True
    assert result["weights"] == [], "no job ran"
    (strike,) = result["faults"]
    assert strike["suspect"] == "node-sick"
    assert strike["outcome"] == "replaced"
    assert strike["problems"] == []
    assert len(strike["reasons"]) == 3, "two resets and the replacement"
    assert "stories count" in strike["reasons"][-1], "because it was the third"
    assert strike["verdict"].endswith(", replace_node")
    told = done.stderr
    assert told.count("node-sick is remediating, reset_gpu is ordered") == 2
    assert told.count("node-sick is ok: node-sick went through its probation") == 2
    assert "ledger   quarantined: GPU-" in told
    assert told.index("the pool delivers node-fresh") < told.index("node-fresh is started")
    assert "node-fresh is probation" in told
    logs = Path(result["logs"])
    assert (logs / "strikes" / "node-sick.log").is_file()

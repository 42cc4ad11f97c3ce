"""Two hundred seeds with every promise kept, and the same seed is the same run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sim_run
import sim_seeds

ROOT = Path(__file__).resolve().parents[2]
SEEDS, CHUNK = 200, 40


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_promise_is_kept(first: int) -> None:
    for seed in range(first, first + CHUNK):
        result = sim_run.run(sim_seeds.scenario_of(seed))
        assert not result.violations, f"make sim SEED={seed}: {result.violations[0]}"


def test_a_crowd_keeps_them_too() -> None:
    """156 agents; `tools/simulate_seeds.py --agents 3000` is the same with more."""
    result = sim_run.run(sim_seeds.crowd_of(156))
    assert not result.violations, result.violations[0]


def test_a_seed_is_the_same_run_in_every_process() -> None:
    code = "import sim_run, sim_seeds; print(sim_run.run(sim_seeds.scenario_of(23)))"

    def told(hash_seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "tests" / "simulation")}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout

    assert told("1") == told("2") != ""

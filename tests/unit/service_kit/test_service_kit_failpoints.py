"""A failpoint kills at its place and count, and nowhere else; a typo is refused and cannot pass for a survived kill."""

from __future__ import annotations

import subprocess
import sys

import pytest

from service_kit.failpoints import Failpoints

PROGRAM = """
import sys
from service_kit.failpoints import Failpoints
failpoints = Failpoints(sys.argv[1])
for turn in range(5):
    failpoints.reach("before")
    print(turn, flush=True)
    failpoints.reach("after_persist")
"""


@pytest.mark.parametrize(("spec", "turns"), [("after_persist", 1), ("after_persist:3", 3), ("before:2", 1)])
def test_it_kills_at_the_named_place_and_count(spec: str, turns: int) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, spec], capture_output=True, timeout=60, check=False)
    assert done.returncode == -9
    assert len(done.stdout.splitlines()) == turns


@pytest.mark.parametrize("spec", ["elsewhere", "after_persist:6", ""])
def test_it_lets_everything_else_pass(spec: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, spec], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 5


@pytest.mark.parametrize("spec", ["After_persist", "a b", "x:0", "x:", ":1", "x:-1", "x:1:2"])
def test_a_typo_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="is not name or name:n"):
        Failpoints(spec)

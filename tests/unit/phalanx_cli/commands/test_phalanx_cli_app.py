"""The command's face: help that teaches, a version, and `run` without the other commands' libraries."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from phalanx_cli.commands.app import app


def test_help_lists_every_command_and_teaches_with_examples() -> None:
    said = CliRunner().invoke(app, ["--help"]).output
    for word in ("run", "up", "down", "status", "demo", "phalanx run --nproc-per-node 4 train.py"):
        assert word in said


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("phalanx 0.")


@pytest.mark.parametrize("unwanted", ["typer", "torch", "fastapi", "phalanx_cli.demo"])
def test_run_does_not_load_what_it_does_not_need(unwanted: str) -> None:
    code = f"import sys, phalanx_cli.main, phalanx_cli.commands.run; sys.exit({unwanted!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0

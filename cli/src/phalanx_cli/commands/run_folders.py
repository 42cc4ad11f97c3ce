"""Folders of runs with embedded servers: one per run, and only the newest stay."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

from phalanx_cli.stack.stack import LOCK_FILE

RUNS_KEPT = 10
"""Enough to look into what happened this week; a run's streams take a few MB, and its ranks' logs live elsewhere."""


def remove_old_runs(parent: Path, *, kept: int = RUNS_KEPT) -> list[Path]:
    """Remove all but the newest `kept` runs that are over; returns what was removed. Never raises."""
    try:
        runs = sorted((path for path in parent.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    except OSError:
        # No run yet, or no access: then the run itself will say so.
        return []
    removed = []
    for run in runs[: max(0, len(runs) - kept)]:
        if _is_over(run):
            shutil.rmtree(run, ignore_errors=True)
            removed.append(run)
    return removed


def _is_over(run: Path) -> bool:
    """Whether no stack holds the folder's lock."""
    try:
        with (run / LOCK_FILE).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        # A stack takes its lock before it writes anything else, so this one is being created, or is none of ours.
        return False
    except OSError:
        return False
    return True

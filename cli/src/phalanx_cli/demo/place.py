"""The folder of one demo run: logs stay, checkpoints and server data go unless they are to be kept."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

RUNS_KEPT = 5
"""Older runs' folders are removed at the next start."""
_PREFIX = "run-"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """Paths of one run."""

    root: Path

    @property
    def logs(self) -> Path:
        """Terminal output of the agents, output of the ranks, logs of the servers."""
        return self.root / "logs"

    @property
    def stack(self) -> Path:
        """Data of the embedded servers."""
        return self.root / "stack"

    def work(self, job: str) -> Path:
        """Checkpoints and results of one job."""
        return self.root / "work" / job

    @property
    def faults(self) -> Path:
        """Where a file makes a rank fail once."""
        return self.root / "work" / "faults"

    def tidy(self) -> None:
        """Remove all but the logs and the report; the servers' logs move to the others."""
        if (self.stack / "logs").is_dir():
            shutil.copytree(self.stack / "logs", self.logs / "servers", dirs_exist_ok=True)
        for folder in (self.stack, self.root / "work"):
            shutil.rmtree(folder, ignore_errors=True)


def make_run_folder(data_dir: Path) -> RunFolder:
    """The next free number; the oldest runs make room.

    Raises:
        OSError: the folder cannot be written.
    """
    data_dir = data_dir.absolute()
    data_dir.mkdir(parents=True, exist_ok=True)
    runs = sorted(path for path in data_dir.glob(f"{_PREFIX}*") if path.name.removeprefix(_PREFIX).isdigit())
    for old in runs[: max(0, len(runs) - RUNS_KEPT + 1)]:
        shutil.rmtree(old, ignore_errors=True)
    number = int(runs[-1].name.removeprefix(_PREFIX)) + 1 if runs else 1
    while True:
        folder = RunFolder(root=data_dir / f"{_PREFIX}{number:04d}")
        try:
            folder.root.mkdir()
        except FileExistsError:  # another demo took this number
            number += 1
            continue
        break
    for path in (folder.logs, folder.faults):
        path.mkdir(parents=True)
    return folder

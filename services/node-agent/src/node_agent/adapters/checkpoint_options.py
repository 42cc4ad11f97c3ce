"""What `phalanx run` was asked for about checkpoints, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node_agent.domain.checkpoint_check import CheckLevel
from node_agent.domain.checkpoint_pattern import DEFAULT_PATTERN, NamePattern


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """`folder` None: no folder is watched."""

    level: CheckLevel = CheckLevel.EXISTS
    folder: Path | None = None
    pattern: NamePattern = DEFAULT_PATTERN

    def problem(self, cwd: Path) -> str:
        """What is wrong with the folder, as a sentence; one that does not exist yet is fine."""
        if self.folder is None or not (cwd / self.folder).exists() or (cwd / self.folder).is_dir():
            return ""
        return f"--checkpoint-dir {self.folder} is not a folder"

"""A fake of the file system as the search for checkpoints sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

from node_agent.domain.checkpoint_check import CheckLevel, PathFacts, PathKind


@dataclass
class FakeCheckpointFiles:
    """Paths that are there, with a list of looks each; the last one stays. Everything else is missing."""

    looks: dict[str, list[PathFacts]] = field(default_factory=dict)
    asked: list[tuple[str, CheckLevel, int | None]] = field(default_factory=list)

    def is_elsewhere(self, path: str) -> bool:
        return path.startswith("s3://")

    async def look(self, path: str, level: CheckLevel, *, pid: int | None) -> PathFacts:
        self.asked.append((path, level, pid))
        found = self.looks.get(path, [PathFacts(kind=PathKind.MISSING)])
        return found.pop(0) if len(found) > 1 else found[0]

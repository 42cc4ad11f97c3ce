"""torchrun's closing report: each of its blocks says once which host and rank the lines below are about.

    [0]:
      time      : 2026-09-01_12:00:00
      host      : n17
      rank      : 11 (local_rank: 3)
      exitcode  : 1 (pid: 4711)
      traceback : ...

Format: ChildFailedError.format_msg in torch/distributed/elastic/multiprocessing/errors/__init__.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BLOCK_LINES_MAX = 80
"""A traceback of a block is seldom longer."""
BLOCKS_MAX = 10_000
_BEGIN = re.compile(
    rb"^[^\n]{0,120}?host +: (?P<host>\S{1,253})\s*\n"
    rb"[^\n]{0,120}?rank +: (?P<rank>\d{1,7}) \(local_rank: (?P<local>\d{1,5})\)",
    re.MULTILINE,
)
_END = re.compile(rb"^[^\n]{0,120}?(?:[=-]{10}|\[\d+\]:\s*$|Root Cause)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBlock:
    """Lines from `first` to `last`, both included, are about one rank."""

    first: int
    last: int
    host: str
    rank: int
    local_rank: int


class LaunchReport:
    """Finds the blocks in a stream that passes by. One that lies across two pieces is missed, and nothing else."""

    def __init__(self) -> None:
        self.blocks: list[ReportBlock] = []
        self._number = 1

    def feed(self, part: bytes) -> None:
        """Look at whole or partial lines of any length."""
        if b"(local_rank: " in part:
            for found in _BEGIN.finditer(part):
                if len(self.blocks) < BLOCKS_MAX:
                    self.blocks.append(self._block(part, found))
        self._number += part.count(b"\n")

    def _block(self, part: bytes, found: re.Match[bytes]) -> ReportBlock:
        first = self._number + part.count(b"\n", 0, found.start())
        end = _END.search(part, found.end())
        stop = len(part) if end is None else end.start()
        last = self._number + part.count(b"\n", 0, stop) - 1 if end is not None else first + BLOCK_LINES_MAX
        return ReportBlock(
            first=first,
            last=min(last, first + BLOCK_LINES_MAX),
            host=found["host"].decode(errors="replace"),
            rank=int(found["rank"]),
            local_rank=int(found["local"]),
        )

"""Lines in which torch names a collective that is open: NCCL's watchdog and the flight recorder print them.

Read from the last lines of a rank only, as evidence for people; nothing is decided by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LINES_MAX = 20

_OPEN = re.compile(
    r"WorkNCCL\(SeqNum=|Watchdog caught collective operation timeout|last (?:enqueued|started|completed) (?:NCCL )?work"
    r"|[Ff]light ?[Rr]ecorder|collective_seq_id"
)
"""torch 2.13: csrc/distributed/c10d/ProcessGroupNCCL.cpp and FlightRecorder.hpp."""


def open_collectives(lines: Iterable[str]) -> tuple[str, ...]:
    """The newest such lines, at most LINES_MAX."""
    return tuple(line for line in lines if _OPEN.search(line))[-LINES_MAX:]

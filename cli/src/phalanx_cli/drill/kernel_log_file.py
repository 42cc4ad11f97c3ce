"""Writes records into the plain file that a node takes for its kernel log, as /dev/kmsg would show them."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from pathlib import Path

LEVEL_ERROR = 3
"""KERN_ERR with facility 0: the kernel itself. What user space writes to /dev/kmsg never has facility 0."""
TAIL_BYTES = 8_192
"""Read to find the last sequence number; the longest record is a quarter of that."""
LINE_CHARS_MAX = 2_048
"""PRINTK_MESSAGE_MAX of the kernel."""


def append_records(path: Path, texts: Sequence[str], *, level: int = LEVEL_ERROR) -> list[str]:
    """Append a record for each text; returns what was written. The sequence goes on where the file ends.

    Raises:
        OSError: the file cannot be written.
        ValueError: a text is no line of a kernel log.
    """
    for text in texts:
        if not text or len(text) > LINE_CHARS_MAX or not text.isprintable():
            raise ValueError(f"{text[:80]!r} is no line: 1 to {LINE_CHARS_MAX} printable characters")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        sequence = _last_sequence(log.fileno())
        now_us = time.monotonic_ns() // 1_000
        records = [f"{level},{sequence + place},{now_us + place},-;{text}" for place, text in enumerate(texts, start=1)]
        # One write: a reader sees whole records.
        os.write(log.fileno(), "".join(f"{record}\n" for record in records).encode())
    return records


def _last_sequence(descriptor: int) -> int:
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, TAIL_BYTES, max(0, size - TAIL_BYTES))
    for record in reversed(tail.split(b"\n")):
        fields = record[:64].split(b",", 2)
        if len(fields) == 3 and fields[0].isdigit() and fields[1].isdigit():
            return int(fields[1])
    return 0

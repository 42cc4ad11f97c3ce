"""Bytes of a rank's stream into whole lines: for the terminal's prefix and for the tail kept in memory. Pure.

Never decodes: training scripts print whatever they like. A line longer than the limit is passed on in marked pieces.
"""

from __future__ import annotations

LINE_BYTES_MAX = 16 * 1024
"""Longest line kept whole; a terminal shows no more, and 10 MB without a newline must not be held in memory."""
CONTINUES = b" [line continues]"
TAIL_LINES_MAX = 50
TAIL_LINE_BYTES_MAX = 4 * 1024
"""50 lines of at most 4 KB: 200 KB a rank in the worst case, 1.6 MB for eight ranks."""


class LineSplitter:
    """Cuts a byte stream into lines without their newline; holds at most LINE_BYTES_MAX."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Lines that are complete now."""
        *complete, rest = data.split(b"\n")
        lines: list[bytes] = []
        for part in complete:
            self._rest += part
            self._cut_long(lines, keep=LINE_BYTES_MAX)
            lines.append(bytes(self._rest))
            self._rest.clear()
        self._rest += rest
        self._cut_long(lines, keep=LINE_BYTES_MAX)
        return lines

    def flush(self) -> list[bytes]:
        """What is left without a newline, at the end of the stream."""
        if not self._rest:
            return []
        line = bytes(self._rest)
        self._rest.clear()
        return [line]

    @property
    def unfinished(self) -> bytes:
        """The current line so far."""
        return bytes(self._rest)

    def _cut_long(self, lines: list[bytes], *, keep: int) -> None:
        start = 0
        while len(self._rest) - start > keep:
            lines.append(bytes(self._rest[start : start + keep]) + CONTINUES)
            start += keep
        del self._rest[:start]

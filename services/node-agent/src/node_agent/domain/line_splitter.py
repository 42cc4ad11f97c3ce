"""Bytes of one stream, in whatever pieces they come, into blocks of whole lines with their place in the stream. Pure.

A block may hold thousands of lines: nothing here costs per line, because the log engine looks at whole blocks. A
carriage return ends a line too (progress bars rewrite theirs, and HyperPod reads its files that way). The result does
not depend on where the stream was cut into pieces. (The terminal needs single lines, marked when they are cut: that is
adapters/line_output.py.)
"""

from __future__ import annotations

from dataclasses import dataclass

LINE_BYTES_MAX = 16 * 1024
"""What of a line is looked at; the rest of it is dropped. Bounds memory (a stream without a newline) and the time of
one pattern on one line (measured: at most 60 ms for the worst pattern that is accepted)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Whole lines.

    Attributes:
        data: each line ends with a newline; a carriage return has become one.
        offset: place of the first byte in the stream.
    """

    data: bytes
    offset: int


class LineSplitter:
    """Holds back the unfinished line, at most LINE_BYTES_MAX of it."""

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        assert line_bytes_max > 0, "a line needs room"
        self._line_bytes_max = line_bytes_max
        self._rest = bytearray()
        self._rest_offset = 0
        self._offset = 0
        self._after_return = False
        self.lines = 0
        """Lines finished so far; \\r\\n counts once."""
        self.cut_lines = 0
        """Finished lines of which the part behind the limit was dropped while they were coming."""
        self._is_cut = False

    def feed(self, data: bytes) -> list[Block]:
        """Lines that are whole now, at most two blocks: the line that was begun earlier, and those after it."""
        if not data:
            return []
        data = self._count(data)
        at = self._offset
        self._offset += len(data)
        last = data.rfind(b"\n")
        if last < 0:
            self._keep(data, at)
            return []
        blocks: list[Block] = []
        begin = 0
        if self._rest:
            begin = data.index(b"\n") + 1
            self._keep(data[: begin - 1], at)
            blocks.append(self._take_rest())
        if begin <= last:
            whole = data[begin : last + 1] if begin or last + 1 < len(data) else data
            blocks.append(Block(data=whole, offset=at + begin))
        self._keep(data[last + 1 :], at + last + 1)
        return blocks

    def flush(self) -> list[Block]:
        """The last line of a stream that ended without a newline."""
        if not self._rest:
            return []
        self.lines += 1
        return [self._take_rest()]

    def _count(self, data: bytes) -> bytes:
        """Count line ends and make each a newline; lengths stay as they are."""
        ends = data.count(b"\n")
        if self._after_return and data.startswith(b"\n"):
            ends -= 1
        self._after_return = data.endswith(b"\r")
        if b"\r" in data:
            ends += data.count(b"\r") - data.count(b"\r\n")
            data = data.replace(b"\r", b"\n")
        self.lines += ends
        return data

    def _keep(self, data: bytes, at: int) -> None:
        """Add to the unfinished line what fits."""
        if not data:
            return
        if not self._rest:
            self._rest_offset = at
        room = self._line_bytes_max - len(self._rest)
        self._rest += data[:room]
        self._is_cut = self._is_cut or len(data) > room

    def _take_rest(self) -> Block:
        """The unfinished line as a block of its own."""
        block = Block(data=bytes(self._rest) + b"\n", offset=self._rest_offset)
        self.cut_lines += self._is_cut
        self._is_cut = False
        self._rest.clear()
        return block

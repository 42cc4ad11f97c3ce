"""Patterns whose fixed text stands in many healthy lines (`loss`, `step`, `memory`): one set of RE2 over whole pieces.

To find fixed text and then try the pattern costs 2 us a line and pattern, which is too much for a text that every line
has. A set of a few whole patterns costs 0.4 us a line for all of them, because most pieces of a stream have no match
at all. It cannot hold all patterns: RE2's automaton of 350 at once grows a new state for almost every byte of a log
that is full of error words (measured: 0.1 MB/s), where looking for fixed text stays fast.
"""

from __future__ import annotations

from collections.abc import Sequence

import re2  # type: ignore[import-untyped]

from fault_attribution.matching.pattern import LINE_BYTES_MAX, re2_options, valid_utf8
from fault_attribution.matching.pattern_syntax import in_re2_syntax
from fault_attribution.matching.prefilter import LineSpan

HOT_MAX = 64
"""Patterns in one set. Start-up lines of several frameworks in one file make some 50 hot; with 32 the rest was tried on
every step."""
HOT_SHARE = 0.02
"""A pattern that is tried on more than this share of the lines of a block is hot."""
HOT_LINES_MIN = 200
"""Lines that a block must have for a share to mean something."""
SET_MEMORY_BYTES = 32 << 20
PIECE_BYTES = 4_096
"""Looked at as one: some 20 lines."""


def can_be_hot(pattern: str) -> bool:
    r"""Whether a pattern means the same on a piece as on its lines; `\A` and `\z` do not."""
    return "\\A" not in pattern and "\\z" not in pattern.lower() and "\\C" not in pattern


class HotPatterns:
    """Some patterns as one."""

    def __init__(self, patterns: Sequence[tuple[int, str]]) -> None:
        """Take patterns with the number of the bit of each."""
        options = re2_options(SET_MEMORY_BYTES, captures=False)
        options.never_nl = True
        self._set = re2.Set.SearchSet(options)
        self._bits: list[int] = []
        for number, pattern in patterns:
            self._set.Add(f"(?m:{in_re2_syntax(pattern)})")
            self._bits.append(1 << number)
        self._set.Compile()

    def lines(self, text: bytes) -> dict[int, tuple[int, int]]:
        """The lines that any of them matches: start to end and bits."""
        found: dict[int, tuple[int, int]] = {}
        matches, size = self._set.Match, len(text)
        begin = 0
        while begin < size:
            end = size if size - begin <= PIECE_BYTES else text.rfind(b"\n", begin, begin + PIECE_BYTES) + 1
            if end <= begin:
                end = text.find(b"\n", begin) + 1 or size
            piece = text[begin:end]
            if matches(valid_utf8(piece)):
                self._single_lines(piece, begin, found)
            begin = end
        return found

    def _single_lines(self, piece: bytes, at: int, found: dict[int, tuple[int, int]]) -> None:
        for line in piece.split(b"\n"):
            cut = line if len(line) <= LINE_BYTES_MAX else line[:LINE_BYTES_MAX]
            numbers = self._set.Match(valid_utf8(cut))
            if numbers:
                bits = 0
                for number in numbers:
                    bits |= self._bits[number]
                found[at] = (at + len(cut), bits)
            at += len(line) + 1


def merged(lines: Sequence[LineSpan], hot: dict[int, tuple[int, int]]) -> list[LineSpan]:
    """Both findings of one block, in the order of its lines."""
    if not hot:
        return list(lines)
    spans = {start: (start, end, bits) for start, end, bits in lines}
    for start, (end, bits) in hot.items():
        known = spans.get(start)
        spans[start] = (start, end, bits if known is None else bits | known[2])
    return [spans[start] for start in sorted(spans)]

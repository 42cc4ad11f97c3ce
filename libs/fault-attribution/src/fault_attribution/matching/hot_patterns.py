"""Patterns whose fixed text stands in many healthy lines (`loss`, `step`, `memory`): one set of RE2 over whole pieces.

To find fixed text and then try the pattern costs 2 us a line and pattern, which is too much for a text that every line
has. A set of a few whole patterns costs 0.4 us a line for all of them, because most pieces of a stream have no match
at all. It cannot hold all patterns: RE2's automaton of 350 at once grows a new state for almost every byte of a log
that is full of error words (measured: 0.1 MB/s), where looking for fixed text stays fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import re2  # type: ignore[import-untyped]

from fault_attribution.matching.pattern import LINE_BYTES_MAX, re2_options, valid_utf8
from fault_attribution.matching.pattern_syntax import in_re2_syntax
from fault_attribution.matching.prefilter import LineSpan

HOT_MAX = 96
"""Hot patterns. A mix of the logs of 30 frameworks and of the kernel had 57."""
SET_MAX = 64
"""Patterns in one set of RE2; more of them make its automaton grow. Measured with 58: one set reads 390,000 lines/s,
two read 260,000; on a log that is a third error lines both read 30,000."""
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
        self._sets = [_Set(patterns[at : at + SET_MAX]) for at in range(0, len(patterns), SET_MAX)]

    def bits_in(self, text: bytes) -> int:
        """Bits of the patterns that match somewhere in whole lines; valid UTF-8."""
        bits = 0
        for each in self._sets:
            for number in each.match(text) or ():
                bits |= each.bits[number]
        return bits

    def lines(self, text: bytes) -> dict[int, tuple[int, int]]:
        """The lines that any of them matches: start to end and bits."""
        found: dict[int, tuple[int, int]] = {}
        size = len(text)
        begin = 0
        while begin < size:
            end = size if size - begin <= PIECE_BYTES else text.rfind(b"\n", begin, begin + PIECE_BYTES) + 1
            if end <= begin:
                end = text.find(b"\n", begin) + 1 or size
            piece = text[begin:end]
            clean = valid_utf8(piece)
            here = [each for each in self._sets if each.match(clean)]
            if here:
                _single_lines(here, piece, begin, found)
            begin = end
        return found


class _Set:
    """One set of RE2."""

    def __init__(self, patterns: Sequence[tuple[int, str]]) -> None:
        options = re2_options(SET_MEMORY_BYTES, captures=False)
        options.never_nl = True
        made = re2.Set.SearchSet(options)
        for _, pattern in patterns:
            made.Add(f"(?m:{in_re2_syntax(pattern)})")
        made.Compile()
        self.match: Callable[[bytes], list[int] | None] = made.Match
        self.bits = [1 << number for number, _ in patterns]


def _single_lines(sets: Sequence[_Set], piece: bytes, at: int, found: dict[int, tuple[int, int]]) -> None:
    for line in piece.split(b"\n"):
        cut = line if len(line) <= LINE_BYTES_MAX else line[:LINE_BYTES_MAX]
        clean = valid_utf8(cut)
        bits = 0
        for each in sets:
            for number in each.match(clean) or ():
                bits |= each.bits[number]
        if bits:
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

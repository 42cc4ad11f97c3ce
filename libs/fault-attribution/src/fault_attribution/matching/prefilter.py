"""Finds the lines of a block that can concern any of many patterns, in one linear-time pass, without cutting the rest.

One RE2 automaton over whole blocks looks for the fixed text that each pattern cannot match without; lines without any
of it are never cut out. A pattern without fixed text is wanted on every line, and then every line is cut out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import re2  # type: ignore[import-untyped]

from fault_attribution.matching.pattern import LINE_BYTES_MAX, SpanFinder, re2_options, span_finder
from fault_attribution.matching.pattern_syntax import Literals

PREFILTER_MEMORY_BYTES = 32 << 20
"""RE2 takes what it needs up to this; 100 rules need well under 1 MB, 500 signatures under 8 MB."""
SELECTIONS_MAX = 1_024
"""Combinations of patterns that are remembered; hostile output could otherwise grow them for ever."""

LineSpan = tuple[int, int, int]
"""Start, end (at most LINE_BYTES_MAX behind it) and the bits of the patterns that may match."""


class Prefilter:
    """Which of many patterns are to be tried on which lines. Pattern n is bit n."""

    def __init__(self, wanted: Sequence[Literals | None], *, of: Prefilter | None = None) -> None:
        """Take the fixed text of each pattern; `of` is one of the same patterns with more text, which saves work."""
        self._search: SpanFinder | None = None
        self._every_line = 0
        """Bits of the patterns to try on every line."""
        self._known: dict[bytes, tuple[int, int]] = {}
        """For each text: the bits that it means, and how far back the search goes on for one that overlaps it."""
        self._all_bits = (1 << len(wanted)) - 1
        self._selected: dict[int, tuple[int, ...]] = {}
        self._build(wanted, of)

    @property
    def takes_every_line(self) -> bool:
        """Whether some pattern has no fixed text."""
        return self._every_line != 0

    def lines(self, data: bytes) -> Iterator[LineSpan]:
        """The lines of a block that are worth a look, in order."""
        return self._lines_of_all(data) if self._every_line else self._lines_with_text(data)

    def patterns(self, bits: int) -> tuple[int, ...]:
        """The numbers of the patterns behind bits; the few combinations that occur are kept."""
        selected = self._selected.get(bits)
        if selected is None:
            if len(self._selected) >= SELECTIONS_MAX:
                self._selected.clear()
            selected = tuple(n for n in range(bits.bit_length()) if bits >> n & 1)
            self._selected[bits] = selected
        return selected

    def _lines_with_text(self, data: bytes) -> Iterator[LineSpan]:
        """The lines that have fixed text of some pattern."""
        search = self._search
        if search is None:
            return
        bits = 0
        start, end, limit = 0, -1, 0
        to = 0
        while (spans := search(data, to)) is not None:
            at, to = spans[0]
            if at > end:
                if bits:
                    yield start, min(end, limit), bits
                start = data.rfind(b"\n", 0, at) + 1
                end = data.find(b"\n", at)
                if end < 0:
                    end = len(data)
                limit = start + LINE_BYTES_MAX
                bits = 0
            if at >= limit:
                # No pattern will see this part, and a hostile line may hold a million of these texts.
                to = end
                continue
            known = self._known.get(data[at:to].lower())
            if known is None:
                # A letter outside ASCII equals an ASCII one when case is ignored; then any pattern may be meant.
                bits |= self._all_bits
                to = at + 1
            else:
                bits |= known[0]
                to -= known[1]
        if bits:
            yield start, min(end, limit), bits

    def _lines_of_all(self, data: bytes) -> Iterator[LineSpan]:
        """Every line, because some pattern has no fixed text."""
        with_text = {start: bits for start, _, bits in self._lines_with_text(data)}
        start = 0
        while start < len(data):
            end = data.find(b"\n", start)
            if end < 0:
                end = len(data)
            yield start, min(end, start + LINE_BYTES_MAX), self._every_line | with_text.get(start, 0)
            start = end + 1

    def _build(self, patterns: Sequence[Literals | None], of: Prefilter | None) -> None:
        wanted: dict[str, int] = {}
        ignoring_case: set[str] = set()
        for n, literals in enumerate(patterns):
            if literals is None:
                self._every_line |= 1 << n
                continue
            for text in literals.texts:
                wanted[text] = wanted.get(text, 0) | 1 << n
                if literals.ignore_case:
                    ignoring_case.add(text)
        if not wanted:
            return
        try:
            options = re2_options(PREFILTER_MEMORY_BYTES, captures=False)
            compiled: Any = re2.compile(_alternation(wanted, ignoring_case), options)
        except re2.error:  # over the memory limit: slower, and still right
            self._every_line = self._all_bits
            return
        self._search = span_finder(compiled, anchored=False)
        if of is None or not of._known:
            self._known = _meanings(wanted)
            return
        here = 0
        for bits in wanted.values():
            here |= bits
        # A place to go on from that serves more texts serves fewer.
        self._known = {text: (bits & here, back) for text, (bits, back) in of._known.items()}


def _alternation(wanted: dict[str, int], ignoring_case: set[str]) -> bytes:
    """One pattern for all texts; where two begin at the same place, the longer one is found."""
    parts = [
        (f"(?i:{re2.escape(text)})" if text in ignoring_case else re2.escape(text))
        for text in sorted(wanted, key=lambda text: (-len(text), text))
    ]
    return "|".join(parts).encode()


def _meanings(wanted: dict[str, int]) -> dict[bytes, tuple[int, int]]:
    """For each text: the patterns that want it or one that hides in it, and its longest end that begins another text.

    The search goes on in front of that end. So every occurrence of every text is found by itself or hides in one that
    is found.
    """
    folded: dict[bytes, int] = {}
    for text, bits in wanted.items():
        key = text.encode().lower()
        folded[key] = folded.get(key, 0) | bits
    beginnings = {key[:size] for key in folded for size in range(1, len(key))}
    meanings = {}
    for found, bits in folded.items():
        for begin in range(len(found)):
            for end in range(begin + 2, len(found) + 1):
                bits |= folded.get(found[begin:end], 0)
        back = next((size for size in range(len(found) - 1, 0, -1) if found[-size:] in beginnings), 0)
        meanings[found] = (bits, back)
    return meanings

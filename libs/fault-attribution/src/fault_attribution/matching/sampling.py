"""A signature that matches every other line of a stream (a step is done) is not run on every line for ever.

Findings of progress, context and what is harmless are kept as the first ones, the last one and a count. After
SAMPLED_FROM matches in one stream such a signature leaves the pass over the stream; of each block only its last lines
are looked at, until each rank that is known to write it was seen. So the last step of a rank stays exact within one
block, and counts become lower bounds. Signatures of causes, symptoms and victims, and those that override others, are
never sampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import re2  # type: ignore[import-untyped]

from fault_attribution.finding import Role
from fault_attribution.matching.hit import CompiledSignature
from fault_attribution.matching.pattern import PATTERN_MEMORY_BYTES, SpanFinder, re2_options, span_finder
from fault_attribution.matching.pattern_syntax import Literals
from fault_attribution.matching.signature_matcher import SignatureMatcher

SAMPLED_FROM = 2_000
"""Matches of a signature in one stream. About 20 ms of work; a prefilter without it takes as long to build."""
SAMPLED_ROLES = frozenset({Role.PROGRESS, Role.CONTEXT, Role.BENIGN})
LAST_LINES_MAX = 64
"""Lines looked at from a block's end, beside four for each rank known to write the signature."""
WINDOW_BYTES = 1_024
"""Where the last occurrence is looked for first; then in eight times as much."""


class Sampling:
    """Which signatures of one stream are sampled, and the pass without them."""

    def __init__(self, matcher: SignatureMatcher) -> None:
        self._matcher = matcher
        self._finders: dict[int, _LastText] = {}
        self.bits = 0
        """Signatures that are sampled."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The same as numbers."""
        return tuple(self._finders)

    def grow(self, matches: Mapping[int, int]) -> None:
        """Take in the signatures that have matched so often that they are to be sampled."""
        wanted = self.bits
        for number, count in matches.items():
            if count >= SAMPLED_FROM and not wanted >> number & 1 and _may_be_sampled(self._matcher.compiled(number)):
                wanted |= 1 << number
        if wanted == self.bits:
            return
        if self._matcher.passes.without(wanted) is None:
            return
        self.bits = wanted
        for number, count in matches.items():
            literals = self._matcher.literals(number)
            if wanted >> number & 1 and number not in self._finders and literals is not None:
                assert count > 0, "it matched"
                self._finders[number] = _LastText(literals)

    def matches(self, number: int, line: bytes) -> bool:
        """Whether a sampled signature matches a line."""
        return self._matcher.compiled(number).run(line, 0) is not None

    def last_lines(self, number: int, text: bytes) -> Iterator[tuple[int, int]]:
        """Start and end of the lines that have fixed text of a sampled signature, from the end of a block on."""
        finder = self._finders[number]
        end = len(text) if finder.is_in(text) else 0
        while end > 0 and (at := finder.before(text, end)) >= 0:
            start = text.rfind(b"\n", 0, at) + 1
            stop = text.find(b"\n", at)
            yield start, len(text) if stop < 0 else stop
            end = start


class _LastText:
    """Finds the last of some texts in bytes."""

    def __init__(self, literals: Literals) -> None:
        self._texts = [text.encode() for text in sorted(literals.texts)]
        self._run: SpanFinder | None = None
        texts = "|".join(re2.escape(text) for text in sorted(literals.texts))
        options = re2_options(PATTERN_MEMORY_BYTES, captures=False)
        flags = "i" if literals.ignore_case else ""
        self._any = span_finder(re2.compile(f"(?{flags}:{texts})", options), anchored=False)
        if literals.ignore_case:
            self._run = span_finder(re2.compile(rf"\C*(?i:{texts})", options), anchored=True)

    def is_in(self, text: bytes) -> bool:
        """Whether a block has any of the texts: one pass forward, where each of them would be a slow one backward."""
        return self._any(text, 0) is not None

    def before(self, text: bytes, end: int) -> int:
        """A place in the last text in front of `end`; -1 when there is none."""
        # From near to far: a text that is nowhere in the block would be looked for in all of it each time.
        size = WINDOW_BYTES
        while True:
            begin = max(0, end - size)
            if self._run is None:
                at = max(text.rfind(each, begin, end) for each in self._texts)
                if at >= 0:
                    return at
            elif (spans := self._run(text[begin:end], 0)) is not None:
                return begin + spans[0][1] - 1
            if begin == 0:
                return -1
            size *= 8


def _may_be_sampled(compiled: CompiledSignature) -> bool:
    return compiled.signature.role in SAMPLED_ROLES and compiled.beats == 0

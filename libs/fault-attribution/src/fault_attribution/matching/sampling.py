"""A signature that matches every other line of a stream (a step is done) is not run on every line for ever.

Findings of progress, context and what is harmless are kept as the first ones, the last one and a count. After
SAMPLED_FROM matches in one stream such a signature leaves the pass over the stream; of each block only its last lines
are looked at, until each rank that is known to write it was seen. So the last step of a rank stays exact within one
block, and counts become lower bounds. Signatures of causes, symptoms and victims, and those that override others, are
never sampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fault_attribution.finding import Role
from fault_attribution.matching.hit import CompiledSignature
from fault_attribution.matching.hot_patterns import PIECE_BYTES, HotPatterns, can_be_hot
from fault_attribution.matching.pattern import LINE_BYTES_MAX, valid_utf8
from fault_attribution.matching.signature_matcher import SignatureMatcher

SAMPLED_FROM = 1_000
"""Matches of a signature in one stream. About 20 ms of work; a pass without it takes 30 ms to build."""
SAMPLED_ROLES = frozenset({Role.PROGRESS, Role.CONTEXT, Role.BENIGN})
LAST_LINES_MAX = 64
"""Lines of a signature that are looked at from a block's end, beside four for each rank known to write it."""


class Sampling:
    """Which signatures of one stream are sampled, and where their last lines are."""

    def __init__(self, matcher: SignatureMatcher) -> None:
        self._matcher = matcher
        self._patterns = HotPatterns([])
        self.bits = 0
        """Signatures that are sampled."""

    def grow(self, matches: Mapping[int, int]) -> None:
        """Take in the signatures that have matched so often that they are to be sampled."""
        wanted = self.bits
        for number, count in matches.items():
            if count >= SAMPLED_FROM and not wanted >> number & 1 and _may_be_sampled(self._matcher.compiled(number)):
                wanted |= 1 << number
        if wanted == self.bits or self._matcher.passes.without(wanted) is None:
            return
        self.bits = wanted
        numbers = self._matcher.passes.all.patterns(wanted)
        self._patterns = HotPatterns([(n, self._matcher.compiled(n).signature.pattern) for n in numbers])

    def last_lines(self, text: bytes, open_bits: list[int]) -> Iterator[tuple[int, bytes, int]]:
        """Start, text and bits of the lines that sampled signatures match, from the end of a block on.

        Args:
            text: whole lines.
            open_bits: one number: bits of the signatures that are still looked for; the caller takes bits out.
        """
        end = len(text)
        while end > 0 and open_bits[0]:
            begin = _piece_begin(text, end)
            piece = text[begin:end]
            if self._patterns.bits_in(valid_utf8(piece)) & open_bits[0]:
                at = end
                for line in reversed(piece.removesuffix(b"\n").split(b"\n")):
                    at = text.rfind(b"\n", 0, at - 1) + 1
                    clean = valid_utf8(line[:LINE_BYTES_MAX])
                    bits = self._patterns.bits_in(clean) & open_bits[0]
                    if bits:
                        yield at, clean, bits
            end = begin


def _piece_begin(text: bytes, end: int) -> int:
    """Where the piece begins that ends at `end`: whole lines, PIECE_BYTES or one line of any length."""
    if end <= PIECE_BYTES:
        return 0
    begin = text.find(b"\n", end - PIECE_BYTES, end - 1) + 1
    return begin if begin > 0 else text.rfind(b"\n", 0, end - 1) + 1


def _may_be_sampled(compiled: CompiledSignature) -> bool:
    signature = compiled.signature
    return signature.role in SAMPLED_ROLES and compiled.beats == 0 and can_be_hot(signature.pattern)

"""The pass over the blocks of streams: fixed text for most patterns, a set for the hot ones, nothing for sampled ones.

Which patterns are hot is learned from the streams themselves. It changes how fast lines are found, never which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fault_attribution.matching.hot_patterns import HOT_LINES_MIN, HOT_MAX, HOT_SHARE, HotPatterns, can_be_hot, merged
from fault_attribution.matching.pattern_syntax import Literals
from fault_attribution.matching.prefilter import LineSpan, Prefilter

PASSES_MAX = 6
"""Kept, one for each combination of hot and sampled patterns; the one that was not used for longest goes. RE2 may take
PREFILTER_MEMORY_BYTES for each, and takes some MB."""
BUILDS_MAX = 64
"""Of passes, 50 to 100 ms each; then streams are read with the passes that are there."""

WORTH_SHARE = 0.1
"""Tries that a new pass must save on each line of a block: building it costs as much as 10,000 tries."""


class StreamPass:
    """Finds the lines of a block that concern any pattern, but for those that are left out."""

    def __init__(self, prefilter: Prefilter, hot: HotPatterns | None) -> None:
        self._prefilter = prefilter
        self._hot = hot

    def lines(self, text: bytes) -> Iterable[LineSpan]:
        """In order. Bits of hot patterns mean that they match, those of others that they may."""
        if self._hot is None:
            return self._prefilter.lines(text)
        return merged(list(self._prefilter.lines(text)), self._hot.lines(text))


class StreamPasses:
    """All passes of one set of patterns."""

    def __init__(self, patterns: Sequence[str], literals: Sequence[Literals | None]) -> None:
        self._patterns = patterns
        self._literals = literals
        self.all = Prefilter(literals)
        self._slow = StreamPass(self.all, None)
        self._passes: dict[tuple[int, int], StreamPass] = {}
        self._builds = 0
        self.hot = 0
        """Bits of the hot patterns."""

    def without(self, sampled: int) -> StreamPass | None:
        """The pass that leaves some patterns out; None when too many were built."""
        key = (self.hot & ~sampled, sampled)
        known = self._passes.pop(key, None)
        if known is None:
            if self._builds >= BUILDS_MAX:
                return None
            self._builds += 1
            known = self._built(*key)
            if len(self._passes) >= PASSES_MAX:
                del self._passes[next(iter(self._passes))]
        self._passes[key] = known
        return known

    def best(self, sampled: int) -> StreamPass:
        """The quickest pass that loses nothing; sampled patterns may be found again, which is right too."""
        return self.without(sampled) or self.without(0) or self._slow

    def learn(self, tried: Mapping[int, int], lines: int) -> bool:
        """From a block: how often which bits were tried, and on how many lines. True when more patterns are hot now."""
        if lines < HOT_LINES_MIN or not tried:
            return False
        tries: dict[int, int] = {}
        for bits, count in tried.items():
            for number in self.all.patterns(bits & ~self.hot):
                tries[number] = tries.get(number, 0) + count
        room = HOT_MAX - self.hot.bit_count()
        hotter = sorted(tries, key=lambda number: (-tries[number], number))[:room]
        new = [n for n in hotter if tries[n] > HOT_SHARE * lines and can_be_hot(self._patterns[n])]
        gain = sum(tries[number] for number in new)
        if gain < WORTH_SHARE * lines or self._builds >= BUILDS_MAX // 2:
            return False
        for number in new:
            self.hot |= 1 << number
        return True

    def _built(self, hot: int, sampled: int) -> StreamPass:
        left_out = Literals(texts=frozenset())
        if not hot and not sampled:
            return self._slow
        wanted = [left_out if (hot | sampled) >> n & 1 else each for n, each in enumerate(self._literals)]
        prefilter = Prefilter(wanted, of=self.all)
        if not hot:
            return StreamPass(prefilter, None)
        return StreamPass(prefilter, HotPatterns([(n, self._patterns[n]) for n in self.all.patterns(hot)]))

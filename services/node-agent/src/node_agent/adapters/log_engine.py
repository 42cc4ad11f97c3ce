"""Finds the lines that concern a list of rules in blocks of output, in linear time, whatever the patterns are.

Two stages. A prefilter, one RE2 automaton over whole blocks, looks for the fixed text that each pattern cannot match
without; lines without any of it are never cut out. On the lines that have some, RE2 runs the full pattern of the rules
concerned and captures. A pattern without fixed text is run on every line. `tools/bench_agent.py` measures
the stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import re2  # type: ignore[import-untyped]

from node_agent.adapters.log_pattern import Needle, SpanFinder, Spans, compile_pattern, re2_options, span_finder
from node_agent.application.log_ports import LineHit
from node_agent.domain.line_splitter import LINE_BYTES_MAX
from node_agent.domain.log_rule import LogRule, RuleKind
from node_agent.domain.log_state import LineSeen

PREFILTER_MEMORY_BYTES = 32 << 20
"""RE2 takes what it needs up to this; 100 rules need well under 1 MB."""


def capture_groups(rule: LogRule, compiled: Any) -> tuple[int, int]:
    """Numbers of the groups for value and path; 0 where none is there or wanted."""
    match rule.kind:
        case RuleKind.CHECKPOINT | RuleKind.PROGRESS:
            names = compiled.groupindex
            if names:
                return names.get("step", 0), names.get("path", 0)
            return min(compiled.groups, 1), 2 if compiled.groups >= 2 else 0
        case RuleKind.METRIC | RuleKind.HANG | RuleKind.FAULT:
            return min(compiled.groups, 1) if rule.metric is not None else 0, 0


class RuleMatcher:
    """application.log_ports.LogMatcher on RE2."""

    def __init__(self, rules: Sequence[LogRule]) -> None:
        self._pairs = [_Pair.of(index, rule) for index, rule in enumerate(rules)]
        self._prefilter: SpanFinder | None = None
        self._every_line = 0
        """Bits of the patterns to run on every line; pattern 2n is rule n's own, 2n + 1 its stop pattern."""
        self._bits_of: dict[bytes, int] = {}
        self._all_bits = 0
        self._selected: dict[int, tuple[tuple[_Pair, bool, bool], ...]] = {}
        self._build()

    def match_block(self, data: bytes) -> list[LineHit]:
        """Hits in the order of the lines, and in the order of the rules on one line."""
        hits: list[LineHit] = []
        lines = self._lines_of_all(data) if self._every_line else self._lines_with_text(data)
        for start, end, bits in lines:
            line = data[start : end if end - start <= LINE_BYTES_MAX else start + LINE_BYTES_MAX]
            clean = line if line.isascii() else _valid_utf8(line)
            for pair, own, stop in self._pairs_in(bits):
                seen = pair.look(line, clean, start, own=own, stop=stop)
                if seen is not None:
                    hits.append((pair.index, seen))
        return hits

    def _lines_with_text(self, data: bytes) -> Iterator[tuple[int, int, int]]:
        """Start, end and pattern bits of the lines that have fixed text of some pattern."""
        if self._prefilter is None:
            return
        bits = 0
        start, end = 0, -1
        to = 0
        while (spans := self._prefilter(data, to)) is not None:
            at, to = spans[0]
            if at > end:
                if bits:
                    yield start, end, bits
                start = data.rfind(b"\n", 0, at) + 1
                end = data.find(b"\n", at)
                if end < 0:
                    end = len(data)
                bits = 0
            # A letter outside ASCII can equal an ASCII one when case is ignored; then any pattern may be meant.
            bits |= self._bits_of.get(data[at:to].lower(), self._all_bits)
        if bits:
            yield start, end, bits

    def _lines_of_all(self, data: bytes) -> Iterator[tuple[int, int, int]]:
        """Every line, because some pattern has no fixed text."""
        with_text = {start: bits for start, _, bits in self._lines_with_text(data)}
        start = 0
        while start < len(data):
            end = data.find(b"\n", start)
            if end < 0:
                end = len(data)
            yield start, end, self._every_line | with_text.get(start, 0)
            start = end + 1

    def _pairs_in(self, bits: int) -> tuple[tuple[_Pair, bool, bool], ...]:
        """The rules behind pattern bits; the few combinations that occur are kept."""
        selected = self._selected.get(bits)
        if selected is None:
            if len(self._selected) >= 1_024:  # hostile output could otherwise grow it for ever
                self._selected.clear()
            selected = tuple(
                (pair, bool(bits >> 2 * n & 1), bool(bits >> 2 * n & 2))
                for n, pair in enumerate(self._pairs)
                if bits >> 2 * n & 3
            )
            self._selected[bits] = selected
        return selected

    def _build(self) -> None:
        wanted: dict[str, int] = {}
        ignoring_case: set[str] = set()
        for n, pair in enumerate(self._pairs):
            for bit, needle in ((1 << 2 * n, pair.own), (2 << 2 * n, pair.stop)):
                if needle is None:
                    continue
                self._all_bits |= bit
                if needle.literals is None:
                    self._every_line |= bit
                    continue
                for text in needle.literals.texts:
                    wanted[text] = wanted.get(text, 0) | bit
                    if needle.literals.ignore_case:
                        ignoring_case.add(text)
        if not wanted:
            return
        try:
            options = re2_options(PREFILTER_MEMORY_BYTES, captures=False)
            compiled = re2.compile(_alternation(wanted, ignoring_case), options)
        except re2.error:  # over the memory limit: slower, and still right
            self._every_line = self._all_bits
            return
        self._prefilter = span_finder(compiled, anchored=False)
        self._bits_of = _bits_by_text(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A rule's own pattern and its stop pattern."""

    index: int
    own: Needle
    stop: Needle | None
    value_group: int
    path_group: int

    @classmethod
    def of(cls, index: int, rule: LogRule) -> _Pair:
        value_group, path_group = capture_groups(rule, compile_pattern(rule.pattern))
        stop = None
        if rule.stop_pattern is not None:
            stop = Needle.of(rule.stop_pattern, rule.mode, captures=False)
        own = Needle.of(rule.pattern, rule.mode, captures=value_group > 0)
        return cls(index=index, own=own, stop=stop, value_group=value_group, path_group=path_group)

    def look(self, line: bytes, clean: bytes, offset: int, *, own: bool, stop: bool) -> LineSeen | None:
        """Run what may match; None when nothing does."""
        spans = self.own.find(clean) if own else None
        stopped = stop and self.stop is not None and self.stop.find(clean) is not None
        if spans is None:
            return LineSeen(matched=False, stopped=True, line=line, offset=offset) if stopped else None
        value = _group(spans, self.value_group, clean) if self.value_group else None
        path = _group(spans, self.path_group, clean) if self.path_group else None
        return LineSeen(value=value, stopped=stopped, path=path, line=line, offset=offset)


def _group(spans: Spans, number: int, line: bytes) -> bytes | None:
    """What a group captured; a newline that was only lent to the line is not part of it."""
    begin, end = spans[number]
    return line[begin:end] if begin >= 0 else None


def _valid_utf8(line: bytes) -> bytes:
    """The line with invalid bytes replaced: RE2's dot does not match them, and the rest of the line must count."""
    return line.decode(errors="replace").encode()


def _alternation(wanted: dict[str, int], ignoring_case: set[str]) -> bytes:
    """One pattern for all texts; where two begin at the same place, the longer one is found."""
    parts = [
        (f"(?i:{re2.escape(text)})" if text in ignoring_case else re2.escape(text))
        for text in sorted(wanted, key=lambda text: (-len(text), text))
    ]
    return "|".join(parts).encode()


def _bits_by_text(wanted: dict[str, int]) -> dict[bytes, int]:
    """For each text found: the patterns that want it, or one that may hide in it or begin inside it.

    The search goes on behind a text, so one that overlaps it is not found by itself. Naming a pattern too many costs
    a try; too few would lose a finding.
    """
    folded: dict[bytes, int] = {}
    beginning_with: dict[bytes, int] = {}
    for text, bits in wanted.items():
        key = text.encode().lower()
        folded[key] = folded.get(key, 0) | bits
        for size in range(1, len(key)):
            beginning_with[key[:size]] = beginning_with.get(key[:size], 0) | bits
    bits_of = {}
    for found, bits in folded.items():
        for other, other_bits in folded.items():
            if other in found:
                bits |= other_bits
        for size in range(1, len(found)):
            bits |= beginning_with.get(found[-size:], 0)
        bits_of[found] = bits
    return bits_of

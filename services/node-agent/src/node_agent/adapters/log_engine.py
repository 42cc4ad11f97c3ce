"""Finds the lines that concern a list of rules in blocks of output, in linear time, whatever the patterns are.

Two stages, both of fault_attribution.matching. The prefilter names the lines that have fixed text of some pattern, and
which; on those RE2 runs the full pattern of the rules concerned and captures. A pattern without fixed text is run on
every line. `tools/bench_agent.py` measures the stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fault_attribution.matching.pattern import Needle, Spans, compile_pattern, valid_utf8
from fault_attribution.matching.prefilter import SELECTIONS_MAX, Prefilter
from node_agent.application.log_ports import LineHit
from node_agent.domain.log_rule import LogRule, MatchMode, RuleKind
from node_agent.domain.log_state import LineSeen


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
        self._looks: list[tuple[_Pair, bool]] = []
        """Each pattern that the prefilter knows: whose it is, and whether it is the stop pattern."""
        for pair in self._pairs:
            self._looks.append((pair, False))
            if pair.stop is not None:
                self._looks.append((pair, True))
        needles = [pair.stop if stop and pair.stop is not None else pair.own for pair, stop in self._looks]
        self._prefilter = Prefilter([needle.literals for needle in needles])
        self._selected: dict[int, tuple[tuple[_Pair, bool, bool], ...]] = {}

    def match_block(self, data: bytes) -> list[LineHit]:
        """Hits in the order of the lines, and in the order of the rules on one line."""
        hits: list[LineHit] = []
        for start, end, bits in self._prefilter.lines(data):
            line = data[start:end]
            clean = valid_utf8(line)
            for pair, own, stop in self._pairs_in(bits):
                seen = pair.look(line, clean, start, own=own, stop=stop)
                if seen is not None:
                    hits.append((pair.index, seen))
        return hits

    def _pairs_in(self, bits: int) -> tuple[tuple[_Pair, bool, bool], ...]:
        """The rules behind pattern bits, each with what of it is to be tried; combinations that occur are kept."""
        selected = self._selected.get(bits)
        if selected is None:
            if len(self._selected) >= SELECTIONS_MAX:
                self._selected.clear()
            chosen: dict[int, list[bool]] = {}
            for n in self._prefilter.patterns(bits):
                pair, stop = self._looks[n]
                chosen.setdefault(pair.index, [False, False])[stop] = True
            selected = tuple((self._pairs[index], own, stop) for index, (own, stop) in chosen.items())
            self._selected[bits] = selected
        return selected


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
        anchored = rule.mode is MatchMode.MATCH
        stop = None
        if rule.stop_pattern is not None:
            stop = Needle.of(rule.stop_pattern, anchored=anchored, captures=False)
        own = Needle.of(rule.pattern, anchored=anchored, captures=value_group > 0)
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

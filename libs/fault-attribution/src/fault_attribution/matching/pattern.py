"""One pattern of a rule: accepted or refused with its place, and run on single lines through RE2.

RE2 matches in time proportional to the line, whatever the pattern; Python's `re` is used on no output, it backtracks.
Both the log rules of an agent and the signatures of the engine are run by this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

from fault_attribution.matching.pattern_syntax import (
    Literals,
    anchored_tail,
    in_re2_syntax,
    may_take_newline,
    required_literals,
)

Spans = Sequence[tuple[int, int]]
"""Begin and end of the match and of each group; (-1, -1) for a group that took no part."""
SpanFinder = Callable[[bytes, int], Spans | None]

NEEDLES_MAX = 512
"""Compiled patterns kept: once for all ranks and streams, and a reload finds them again. Two for each of 200 rules."""
PATTERN_CHARS_MAX = 4_096
PROGRAM_SIZE_MAX = 1_000
"""RE2's instructions of one pattern. Time on one line is at most proportional to this times the line's length:
measured 53 ms for 917 instructions on 16 KB. `\\d{1,6}`-like patterns have 20 to 100."""
PATTERN_MEMORY_BYTES = 1 << 20
LINE_BYTES_MAX = 16 * 1024
"""What of a line is looked at. Bounds the time of one pattern on one line (measured: at most 60 ms for the worst
pattern that is accepted), and the memory that a text without a newline takes."""

_RE2_ERROR = re.compile(r"^(?P<what>[^:]+)(?:: (?P<fragment>.+))?$", re.DOTALL)


class PatternRefused(Exception):
    """A pattern that cannot be run in linear time, or is malformed or too large; the message is for its author."""


def compile_pattern(pattern: str, *, captures: bool = True) -> Any:
    """The pattern as a compiled re2 object.

    Args:
        pattern: as the author wrote it.
        captures: False when its groups are not asked for, which is faster.

    Raises:
        PatternRefused: with the place in the pattern.
    """
    if len(pattern) > PATTERN_CHARS_MAX:
        raise PatternRefused(f"the pattern has {len(pattern)} characters; at most {PATTERN_CHARS_MAX} are accepted")
    try:
        text = in_re2_syntax(pattern)
        compiled = re2.compile(text, re2_options(PATTERN_MEMORY_BYTES, captures=captures))
    except UnicodeEncodeError as error:
        raise PatternRefused(f"the pattern has a lone surrogate at character {error.start + 1}") from error
    except re2.error as error:
        raise PatternRefused(_reason(pattern, error)) from error
    if compiled.programsize > PROGRAM_SIZE_MAX:
        raise PatternRefused(
            f"the pattern is too large: {compiled.programsize} instructions, at most {PROGRAM_SIZE_MAX} are accepted "
            "(counted repetitions like {0,500} multiply what they repeat)"
        )
    return compiled


def scans_every_line(pattern: str) -> bool:
    """True when the pattern has no fixed text to look for, so that it is run on every line (3 to 7 us each)."""
    return required_literals(in_re2_syntax(pattern)) is None


def span_finder(compiled: Any, *, anchored: bool) -> SpanFinder:
    """A function that runs a pattern on bytes from a place on.

    It calls the extension module under re2's Python code, which halves the time of a short match (measured: 1.4 us
    against 2.8 us); that module is not documented, so where it is different the documented calls are used.
    """
    run = getattr(getattr(compiled, "_regexp", None), "Match", None)
    anchors = getattr(re2, "_Anchor", None)
    if run is None or anchors is None:
        return _documented_finder(compiled.match if anchored else compiled.search, compiled.groups)
    anchor = anchors.ANCHOR_START if anchored else anchors.UNANCHORED

    def find(text: bytes, at: int) -> Spans | None:
        spans: Spans = run(anchor, text, at, len(text))
        return None if spans[0][0] < 0 else spans

    return find


def span_finder_on_demand(pattern: str) -> SpanFinder:
    """As `span_finder`, of a pattern that is known to be accepted, compiled when it is first run.

    Of hundreds of signatures an agent meets a handful in its life; compiled ones take 11 KB each.
    """
    finder: SpanFinder | None = None

    def find(text: bytes, at: int) -> Spans | None:
        nonlocal finder
        if finder is None:
            finder = span_finder(compile_pattern(pattern), anchored=False)
        return finder(text, at)

    return find


def _documented_finder(run: Any, groups: int) -> SpanFinder:
    def find(text: bytes, at: int) -> Spans | None:
        found = run(text, at)
        return None if found is None else [found.span(group) for group in range(groups + 1)]

    return find


def valid_utf8(line: bytes) -> bytes:
    """The line with invalid bytes replaced: RE2's dot does not match them, and the rest of the line must count."""
    return line if line.isascii() else line.decode(errors="replace").encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Needle:
    """One pattern, ready to run on a line."""

    literals: Literals | None
    run: SpanFinder
    tail: SpanFinder | None
    fixed: bytes
    takes_newline: bool

    @classmethod
    @lru_cache(maxsize=NEEDLES_MAX)
    def of(cls, pattern: str, *, anchored: bool, captures: bool) -> Needle:
        """Compile a pattern and its shortcuts; `anchored`: it must match from the line's first byte on."""
        text = in_re2_syntax(pattern)
        tail = anchored_tail(text)
        compiled = compile_pattern(text, captures=captures)
        return cls(
            literals=required_literals(text),
            run=span_finder(compiled, anchored=anchored),
            tail=None if tail is None else span_finder(compile_pattern(tail.pattern, captures=captures), anchored=True),
            fixed=b"" if tail is None else tail.fixed.encode(),
            takes_newline=may_take_newline(text),
        )

    def find(self, line: bytes) -> Spans | None:
        """Places of the match and its groups in the line, or None."""
        if self.tail is None:
            spans = self.run(line, 0)
        else:
            at = line.rfind(self.fixed)
            spans = self.tail(line, at) if at >= 0 else None
            if spans is None and line.find(self.fixed) != at:
                spans = self.run(line, 0)
        if spans is None and self.takes_newline:
            return self.run(line + b"\n", 0)
        return spans


def re2_options(memory_bytes: int, *, captures: bool) -> Any:
    """Quiet, and with a limit on memory."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory_bytes
    options.never_capture = not captures
    return options


def _reason(pattern: str, error: Exception) -> str:
    """RE2's complaint with its place; RE2 quotes the piece it stumbled over."""
    raw = error.args[0] if error.args else b""
    complaint = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    parsed = _RE2_ERROR.match(complaint)
    fragment = parsed["fragment"] if parsed else None
    text = in_re2_syntax(pattern)
    at = text.find(fragment) if fragment and fragment != text else -1
    place = f" at character {at + 1}" if at >= 0 else ""
    hint = ""
    if fragment and fragment.startswith(("(?=", "(?!", "(?<")):
        hint = "; look-around needs backtracking, which linear-time matching does not have"
    elif parsed and parsed["what"] == "invalid escape sequence" and fragment and fragment[1:].isdigit():
        hint = "; back-references need backtracking, which linear-time matching does not have"
    return f"the pattern is not accepted{place}: {complaint}{hint}"

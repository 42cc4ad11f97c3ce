"""Lines that look like an error although no signature knows them, and what makes two of them the same.

They are kept so that a person, and whoever writes the next signature, sees them; healthy logs have such words too, so
they never make a verdict.
"""

from __future__ import annotations

import re

from fault_attribution.finding import Role
from fault_attribution.matching.pattern import compile_pattern, span_finder
from fault_attribution.matching.pattern_syntax import Literals
from fault_attribution.signature import Signature

SHAPE_CHARS_MAX = 300
"""Of a line's beginning; two lines that differ behind it are of one shape."""

LOOKS = Signature(
    signature_id="builtin.unrecognised",
    kind="unrecognised",
    role=Role.UNRECOGNISED,
    pattern=(
        r"(?:^|[^A-Za-z0-9_])(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|Fatal|FAILED)(?:[^A-Za-z0-9_]|$)"
        # The last line of a traceback; the line "Traceback ..." in front of it says nothing.
        r"|^(?:\[[^\]]{0,40}\]:? ?)*(?:[A-Za-z_][A-Za-z0-9_]*\.)*"
        r"[A-Za-z0-9_]*(?:Error|Exception|Failure|Fault|Interrupt|Expired)(?:: |:?$)"
        r"|(?i)\b(?:panic|fatal error|cannot|unable to|core dumped|aborted|failure|failed[:!.,]"
        r"|failed (?:to|with|on|in|at|for|because)|(?:has|have|is|was) failed|error: +[a-z]|error \d+(?:[^.\d]|$))"
        r"|\bfailed$"
    ),
    meaning="It looks like an error, and no signature knows it.",
    origin="level words of log libraries; the last line of a Python traceback; words of C programs and of the kernel",
)
LITERALS = Literals(
    texts=frozenset(
        {"error", "exception", "fatal", "critical", "severe", "panic", "fail", "fault", "interrupt", "expired",
         "cannot", "unable to", "core dumped", "aborted"}
    ),
    ignore_case=True,
)  # fmt: skip
"""Each alternative of the pattern has one of them."""

FRAME = Signature(
    signature_id="builtin.traceback_frame",
    kind="traceback_frame",
    role=Role.CONTEXT,
    pattern=r'\bFile "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>[^\n]+)',
    meaning="The innermost frame of a Python traceback: where the exception came from.",
    origin="Lib/traceback.py, StackSummary.format_frame_summary",
)

_COUNTED_NOTHING = span_finder(
    compile_pattern(
        r"(?i)\b(?:0|no|zero|without) +(?:\w+ +)?(?:failed|failures?|errors?|exceptions?)\b"
        r"|\b(?:failed|failures?|errors?|fatal|critical|exceptions?)[\"']?\s*[=:]"
        r"\s*(?:0+(?:\.0+)?\b|none|false|null|no\b|n/a|\[\]|off)"
        r"|\berror[_ ]?(?:rate|count|handler|correction|bars?)\b"
        r"|ignor(?:e|ing) (?:the )?(?:failure|errors?|exceptions?)\b",
        captures=False,
    ),
    anchored=False,
)
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d+|(?<![A-Za-z0-9])/[^\s:'\",)]+")


def counts_nothing(line: bytes) -> bool:
    """Whether the words are there because a count of errors is: `failed=0`, `no errors`."""
    return _COUNTED_NOTHING(line, 0) is not None


def shape_of(text: str) -> str:
    """The line without numbers, addresses and paths."""
    return _VARIABLE.sub("#", text[:SHAPE_CHARS_MAX])

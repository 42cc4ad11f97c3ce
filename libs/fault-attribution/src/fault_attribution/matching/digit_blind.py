r"""Lines that are the same but for their digits are matched once.

A pattern that names no digit (`\d`, `[0-9]`, `\w` and `.` take all ten alike) matches two lines at the same places
when they differ in nothing but which digits stand where. A log in trouble writes such lines by the thousand. A pattern
that names one (`Xid 79`) is run on each line.
"""

from __future__ import annotations

import re

FOLDED = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else byte for byte in range(256))
"""For bytes.translate: each digit becomes 0, and the line stays as long as it is."""
MEMO_LINES_MAX = 2_048
"""Lines whose hits are remembered; then it begins anew. With MEMO_LINE_BYTES_MAX 2 MB at the most."""
MEMO_LINE_BYTES_MAX = 512
"""Longer lines are rare, and seldom come again."""

_ESCAPE = re.compile(r"\\[^0-9xpPQC]", re.DOTALL)
_CLASS = re.compile(r"\[[^\]]*\]")
_GROUP_NAME = re.compile(r"\(\?P?<\w+>")
_QUANTIFIER = re.compile(r"\{\d*(?:,\d*)?\}")
_DIGIT = re.compile(r"\d")


def is_digit_blind(pattern: str) -> bool:
    """Whether a pattern takes all digits alike; False where that is not plain to see."""
    text = _GROUP_NAME.sub("", _ESCAPE.sub("", pattern))
    text = _CLASS.sub(lambda found: "0" if _DIGIT.search(found[0].replace("0-9", "")) else "", text)
    return _DIGIT.search(_QUANTIFIER.sub("", text)) is None

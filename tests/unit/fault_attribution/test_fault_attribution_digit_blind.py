"""A line that differs from an earlier one only in its digits has the same hits as on its own."""

from __future__ import annotations

from random import Random

import pytest

from fault_attribution.evidence_line import Source
from fault_attribution.loading.rule_files import load_rules
from fault_attribution.matching.digit_blind import MEMO_LINES_MAX, is_digit_blind
from fault_attribution.matching.signature_matcher import SignatureMatcher


@pytest.mark.parametrize(
    ("pattern", "blind"),
    [
        (r"lost after \d+ s", True),
        (r"(?P<free2>[0-9a-fA-F]{4,8}):[^0-9]\w.{,3}", True),
        (r"Xid[^:]*: 79\b", False),
        (r"gpus 0-9", False),
        (r"\[0-9]", False),
        (r"error [1-9]\d*", False),
        (r"a[{5}]b", False),
        (r"[]0-9]x", False),
        (r"\x41\d", False),
        (r"\101", False),
    ],
)
def test_what_takes_all_digits_alike(pattern: str, blind: bool) -> None:
    assert is_digit_blind(pattern) is blind


def test_other_digits_give_the_hits_of_the_line_itself() -> None:
    """All lines that signatures are tested with, each with other digits before and after it."""
    signatures = load_rules().signatures
    matcher, forgetful, random = SignatureMatcher(signatures), SignatureMatcher(signatures), Random(7)
    blind = sum(is_digit_blind(each.pattern) for each in signatures)
    assert len(signatures) // 2 < blind < len(signatures)
    lines = [one for each in signatures for one in (*(example.line for example in each.matches), *each.misses)]
    shared = 0
    for line in lines:
        for _ in range(3):
            changed = "".join(random.choice("0123456789") if one.isascii() and one.isdigit() else one for one in line)
            text = changed.encode()
            bits = matcher.bits(text)
            told = matcher.hits(text, bits, Source.UNKNOWN)
            forgetful._memo.clear()
            alone = forgetful.hits(text, bits, Source.UNKNOWN)
            assert [(hit.compiled.number, list(hit.spans)) for hit in told] == [
                (hit.compiled.number, list(hit.spans)) for hit in alone
            ], changed
            shared += bool(told)
    assert shared > 1_000


def test_what_is_remembered_is_bounded() -> None:
    matcher = SignatureMatcher(load_rules().signatures)
    for number in range(MEMO_LINES_MAX + 100):
        word = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        line = f"RuntimeError: CUDA error: out of memory in {word}".encode()
        matcher.hits(line, matcher.bits(line), Source.UNKNOWN)
        assert len(matcher._memo) <= MEMO_LINES_MAX

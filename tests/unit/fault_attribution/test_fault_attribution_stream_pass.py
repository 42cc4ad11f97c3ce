"""Which patterns are hot changes how lines are found, never which."""

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st
from signature_rig import signature

from fault_attribution.finding import Finding
from fault_attribution.matching import stream_pass
from fault_attribution.matching.hot_patterns import PIECE_BYTES, HotPatterns, can_be_hot
from fault_attribution.matching.pattern import LINE_BYTES_MAX
from fault_attribution.matching.signature_matcher import SignatureMatcher
from fault_attribution.matching.stream_scan import StreamScan

PATTERNS = (
    r"loss\W+nan", r"(?i)^step (?P<n>\d+)$", r"mem(?:ory)?[^ ]+full", r"\bloss: (?P<v>\S+)", r"損失.end", r"(?s)a.+b",
    r"x\s+y", "[^l]+oss!",
)  # fmt: skip
SIGNATURES = [signature(f"t.{n}", pattern) for n, pattern in enumerate(PATTERNS)]
PIECES = st.sampled_from(
    [b"loss", b": ", b"nan", b"Step ", b"12", b"\n", b"\r\n", b"mem", b"ory", b"full", b"a", b"b", b"x", b" ", b"y",
     "損失".encode(), b"end", b"\xff", b"\xe6\x90", b"\x00", b"!", b"z" * 5_000, b"q" * LINE_BYTES_MAX]
)  # fmt: skip


def found(data: bytes, hot: int) -> list[Finding]:
    matcher = SignatureMatcher(SIGNATURES)
    matcher.passes.hot = hot
    scan = StreamScan(matcher, stream="s")
    scan.feed(data)
    return scan.end()


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=60).map(b"".join), st.integers(1, 2 ** len(PATTERNS) - 1))
def test_hot_patterns_find_what_they_find_otherwise(data: bytes, hot: int) -> None:
    assert found(data, hot) == found(data, 0)


def test_a_pattern_that_is_tried_on_many_lines_becomes_hot_and_nothing_is_lost() -> None:
    matcher = SignatureMatcher(SIGNATURES)
    scan = StreamScan(matcher, stream="s")
    block = b"loss: 1\n" * 10 + b"the loss is low\n" * 990
    scan.feed(block)
    hot = matcher.passes.hot
    assert hot, "each line has `loss`"
    scan.feed(block)
    assert sum(each.count for each in scan.end() if each.kind == "t_3") == 20
    assert matcher.passes.hot == hot


def test_a_few_lines_teach_nothing() -> None:
    matcher = SignatureMatcher(SIGNATURES)
    StreamScan(matcher, stream="s").feed(b"loss: 1\n" * 100)
    assert matcher.passes.hot == 0


def test_kept_passes_and_builds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_pass, "PASSES_MAX", 2)
    monkeypatch.setattr(stream_pass, "BUILDS_MAX", 4)
    passes = SignatureMatcher(SIGNATURES).passes
    assert all(passes.without(sampled) is not None for sampled in (0, 1, 2, 4))
    assert len(passes._passes) == 2
    assert passes.without(8) is None
    assert passes.best(8) is passes._slow
    assert passes.best(4) is passes.without(4)


def test_pieces_end_at_lines_and_long_lines_are_one_piece() -> None:
    text = b"x" * (PIECE_BYTES - 3) + b"\nabc\n" + b"y" * 3 * PIECE_BYTES + b"\nabc"
    hot = HotPatterns([(5, "abc")])
    assert hot.lines(text) == {
        PIECE_BYTES - 2: (PIECE_BYTES + 1, 32),
        len(text) - 3: (len(text), 32),
    }


@pytest.mark.parametrize("pattern", [r"\Aabc", r"abc\z", r"abc\Z", r"\C+abc"])
def test_what_means_something_else_on_many_lines_is_never_hot(pattern: str) -> None:
    assert not can_be_hot(pattern)


def test_this_re2_has_sets() -> None:
    assert re2.Set.SearchSet is not None

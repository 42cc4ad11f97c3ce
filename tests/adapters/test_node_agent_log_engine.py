"""The engine finds what trying every rule on every line finds, on hostile output and with hostile patterns too."""

import re
import time
from collections.abc import Sequence
from typing import Any

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from fault_attribution.matching.pattern import PatternRefused, compile_pattern, scans_every_line, span_finder
from node_agent.adapters.log_engine import RuleMatcher
from node_agent.application.log_ports import LineHit
from node_agent.domain.line_splitter import LINE_BYTES_MAX
from node_agent.domain.log_rule import LogRule, MatchMode, MetricCondition, NonFinite, RuleAction, RuleKind


def rule(pattern: str, **fields: Any) -> LogRule:
    metric = MetricCondition(non_finite=frozenset(NonFinite)) if "kind" not in fields else None
    base = {"name": "r", "pattern": pattern, "kind": RuleKind.METRIC, "action": RuleAction.ALERT, "metric": metric}
    return LogRule(**{**base, **fields})


def found(rules: Sequence[LogRule], data: bytes) -> list[tuple[int, bytes, bytes | None]]:
    return [(rule, seen.line, seen.value) for rule, seen in RuleMatcher(rules).match_block(data)]


def search(pattern: str, **fields: Any) -> LogRule:
    return rule(pattern, mode=MatchMode.SEARCH, **fields)


def test_hits_come_in_the_order_of_lines_and_rules_with_their_captures_and_places() -> None:
    rules = [rule(r".*loss: (\S+).*"), rule(r".*OOM.*"), rule(r"step (\d+).*")]
    data = b"step 1 loss: 2.5\nnothing\nOOM step 2\nOOM loss: nan\n"
    hits = RuleMatcher(rules).match_block(data)
    assert [(rule, seen.value, seen.offset) for rule, seen in hits] == [
        (0, b"2.5", 0),
        (2, b"1", 0),
        (1, None, 25),
        (0, b"nan", 36),
        (1, None, 36),
    ]
    assert hits[2][1].line == b"OOM step 2"


def test_match_begins_at_the_line_and_search_anywhere() -> None:
    assert found([rule("loss (.+)"), search("loss (.+)")], b"x loss 1\n") == [(1, b"x loss 1", b"1")]


def test_the_last_of_several_places_counts_as_a_greedy_start_demands() -> None:
    assert found([rule(r".*loss (\d).*")], b"loss 1 loss 2\n") == [(0, b"loss 1 loss 2", b"2")]
    assert found([rule(r".*?loss (\d).*")], b"loss 1 loss 2\n") == [(0, b"loss 1 loss 2", b"1")]


def test_texts_that_hide_in_each_other_are_all_found() -> None:
    patterns = ["abcdef", "bcd", "abc", "def", "cdefgh", "fgh", "abcdefgh"]
    hits = found([search(text) for text in patterns], b"xx abcdefgh yy\n")
    assert [patterns[index] for index, _, _ in hits] == patterns


def test_case_is_ignored_when_the_pattern_says_so_even_with_letters_outside_ascii() -> None:
    rules = [search("(?i)out of memory"), search("(?i)kernel"), search("kernel")]
    assert [hit[0] for hit in found(rules, b"Out Of MEMORY\nKERNEL\nkernel\n")] == [0, 1, 1, 2]
    assert [hit[0] for hit in found(rules, "\u212aernel\n".encode())] == [1], "the Kelvin sign folds to k"


def test_the_stop_pattern_is_reported_beside_the_pattern() -> None:
    rules = [rule(".*train.*", stop_pattern=".*finished.*")]
    hits = RuleMatcher(rules).match_block(b"train\nfinished\ntrain finished\nidle\n")
    assert [(seen.matched, seen.stopped) for _, seen in hits] == [(True, False), (False, True), (True, True)]


def test_step_and_path_are_captured_by_name_or_by_order() -> None:
    named = rule(r".*to (?P<path>\S+) at step (?P<step>\d+)", kind=RuleKind.CHECKPOINT)
    ordered = rule(r"saved (\d+) (\S+)", kind=RuleKind.CHECKPOINT)
    hits = RuleMatcher([named, ordered]).match_block(b"saved to /c/5 at step 5\nsaved 6 /c/6\n")
    assert [(seen.value, seen.path) for _, seen in hits] == [(b"5", b"/c/5"), (b"6", b"/c/6")]


def test_a_group_that_took_no_part_captures_nothing() -> None:
    assert found([rule(r"done(?: in (\d+) s)?.*")], b"done\ndone in 5 s\n") == [
        (0, b"done", None),
        (0, b"done in 5 s", b"5"),
    ]


def test_a_pattern_may_end_with_the_newline_that_hyperpod_leaves_on_its_lines() -> None:
    assert found([rule(r".*loss (\S+)\s.*")], b"loss 1.5\nloss 2.5 ok\n") == [
        (0, b"loss 1.5", b"1.5"),
        (0, b"loss 2.5 ok", b"2.5"),
    ]
    assert found([rule(".*loss (\\d)\n")], b"loss 1\nloss 2 x\n") == [(0, b"loss 1", b"1")]
    assert found([rule(r".*loss (\d)$")], b"loss 1\nloss 2 x\n") == [(0, b"loss 1", b"1")]


# ------------------------------------------------------------------------------------------------ hostile output


def test_invalid_utf8_and_nul_bytes_hide_nothing() -> None:
    rules = [rule(r".*loss: (\S+).*"), search(r"^.+FATAL$")]
    assert found(rules, b"\xff\xfe loss: 1.5 \xe2\x82\n\x00\xc3FATAL\n") == [
        (0, b"\xff\xfe loss: 1.5 \xe2\x82", b"1.5"),
        (1, b"\x00\xc3FATAL", None),
    ]


def test_a_very_long_line_is_looked_at_up_to_the_limit() -> None:
    matcher = RuleMatcher([search("EARLY"), search("LATE")])
    line = b"EARLY" + b"x" * LINE_BYTES_MAX + b"LATE" + b"y" * 1_000_000
    hits = matcher.match_block(line + b"\nLATE\n")
    assert [(rule, seen.offset, len(seen.line)) for rule, seen in hits] == [
        (0, 0, LINE_BYTES_MAX),
        (1, len(line) + 1, 4),
    ]


def test_text_without_patterns_costs_no_matches() -> None:
    assert RuleMatcher([]).match_block(b"anything\n") == []
    assert RuleMatcher([rule("xyz")]).match_block(b"") == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"(a+)+$", b"a" * 28 + b"!"),
        (r"(x+x+)+y", b"x" * 28),
        (r"^(\d+)*\.$", b"1" * 28 + b"!"),
        (r"loss.*loss.*loss.*=(\d+)$", b"loss" * 500),
        (r"(.*?,){11}P", b"1," * 22),
        (r"(a|aa)+$", b"a" * LINE_BYTES_MAX + b"!"),
        (r"(?:a?){200}a{200}(b)", b"a" * LINE_BYTES_MAX),
        (r".*a.{0,100}(b)?", b"a" * LINE_BYTES_MAX),
    ],
)
def test_no_pattern_takes_more_than_linear_time(pattern: str, line: bytes) -> None:
    matcher = RuleMatcher([rule(pattern)])
    began_s = time.process_time()
    matcher.match_block(line + b"\n")
    assert time.process_time() - began_s < 1.0, "minutes to centuries with backtracking; the worst here took 0.06 s"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"(?=x)y", "at character 1: invalid perl operator: (?=; look-around"),
        (r"ab(?<!x)y", "at character 3"),
        (r"(a)\1", "back-references"),
        (r"x[abc", "missing ]"),
        (r"a(b", "missing )"),
        (r"a{1001}", "invalid repetition size"),
        (r"*a", "no argument"),
        (r"(.{0,100}x){9}", "too large"),
        ("x" * 5_000, "at most 4096"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_its_place(pattern: str, said: str) -> None:
    with pytest.raises(PatternRefused, match=re.escape(said)):
        compile_pattern(pattern)


class WithoutExtension:
    """A compiled pattern of an re2 whose inside is different: the documented calls only."""

    def __init__(self, compiled: Any) -> None:
        self.match, self.search, self.groups = compiled.match, compiled.search, compiled.groups


def test_the_extension_module_and_re2_s_documented_calls_agree() -> None:
    compiled = compile_pattern(r"a(b)?(c)")
    for anchored in (True, False):
        quick = span_finder(compiled, anchored=anchored)
        slow = span_finder(WithoutExtension(compiled), anchored=anchored)
        for text, at in ((b"abc", 0), (b"xac", 0), (b"xac", 1), (b"zzz", 2), (b"", 0)):
            assert quick(text, at) == slow(text, at)
    assert quick(b"xac", 0) == [(1, 3), (-1, -1), (2, 3)]
    assert quick.__module__ == slow.__module__
    assert quick.__qualname__ != slow.__qualname__, "this version of re2 is used the quick way"


def test_a_refused_pattern_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PatternRefused):
        compile_pattern("a(b")
    assert capfd.readouterr() == ("", "")


# ------------------------------------------------------------------------------- the same as trying everything

PATTERNS = (
    r".*loss[=:] ?(\S+).*", r"loss", r".*loss_(\d+).*", r".*(\d+)", r"^\d+$", r"step (\d+) loss", r".*step (\d+)\s.*",
    r"(?i).*ERROR.*", r".*error.*|.*loss 9.*", r"", r".*\[(.+)\].*", r".*ss=(.*)", r"(?:los|loss|osst)e", r".*損(.).*",
    r".*step.*loss[=:](.*?)e.*", r"[^l]*loss", r".*os.*", r".*loss.*loss (\S*)",
)  # fmt: skip
PIECES = st.sampled_from(
    [b"loss", b"loss=", b"loss: ", b"1", b"9", b" ", b"step ", b"error", b"ERROR", b"los", b"ste", b"osst", b"e", b"_",
     "損失".encode(), b"\xe6", b"\xff", b"[", b"]", b"\x00", b"nan", b"."]
)  # fmt: skip
LINES = st.lists(st.lists(PIECES, max_size=10).map(b"".join), max_size=12)


def naive(rules: Sequence[LogRule], lines: Sequence[bytes]) -> list[tuple[int, bytes, bytes | None]]:
    """Every rule on every line, with re2's plain calls."""
    hits = []
    for line in lines:
        clean = line.decode(errors="replace").encode()
        for index, each in enumerate(rules):
            run = re2.match if each.mode is MatchMode.MATCH else re2.search
            match = run(each.pattern, clean) or run(each.pattern, clean + b"\n")
            if match is not None:
                hits.append((index, line, match.group(1) if match.re.groups else None))
    return hits


@settings(max_examples=200, deadline=None)
@given(LINES, st.lists(st.tuples(st.sampled_from(PATTERNS), st.sampled_from(MatchMode)), min_size=1, max_size=8))
def test_the_engine_finds_what_trying_everything_finds(lines: list[bytes], chosen: list[tuple[str, MatchMode]]) -> None:
    rules = [rule(pattern, mode=mode) for pattern, mode in chosen]
    data = b"".join(line + b"\n" for line in lines)
    assert found(rules, data) == naive(rules, lines)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="los=: 0123456789.[]step", max_size=40), st.sampled_from(PATTERNS))
def test_on_plain_text_a_rule_means_what_it_means_to_python(line: str, pattern: str) -> None:
    expected = re.compile(pattern).match(line + "\n")
    hits = found([rule(pattern)], line.encode() + b"\n")
    assert bool(hits) == (expected is not None), (pattern, line)
    if expected is not None and expected.re.groups and expected[1] is not None:
        assert (hits[0][2] or b"").decode().strip() == expected[1].strip(), (pattern, line)


def test_rules_without_fixed_text_do_not_disturb_the_others() -> None:
    assert scans_every_line(r"\d+")
    rules = [rule("loss (.*)"), rule(r"(\d+)"), search("[a-c]x")]
    assert found(rules, b"loss 1\n12\nbx 12\nzz\n") == [(0, b"loss 1", b"1"), (1, b"12", b"12"), (2, b"bx 12", None)]


def test_the_prefilter_s_place_can_be_taken_by_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """When all texts together do not fit RE2's memory, lines are tried one by one."""
    monkeypatch.setattr("fault_attribution.matching.prefilter.PREFILTER_MEMORY_BYTES", 1_000)
    matcher = RuleMatcher([rule(f"{n} is the number of this rule: (.*)") for n in range(10, 40)])
    assert matcher._prefilter.takes_every_line
    hits = matcher.match_block(b"x\n17 is the number of this rule: 5\n")
    assert [(index, seen.value) for index, seen in hits] == [(7, b"5")]


def test_hostile_output_cannot_grow_the_engine() -> None:
    rules = [search(f"word{index:02d}") for index in range(16)]
    matcher = RuleMatcher(rules)
    lines = [" ".join(f"word{n:02d}" for n in range(16) if bits >> n & 1) for bits in range(4_000)]
    hits: list[LineHit] = matcher.match_block("".join(line + "\n" for line in lines).encode())
    assert len(hits) == sum(bits.bit_count() for bits in range(4_000))
    assert len(matcher._selected) <= 1_024

"""Shortcuts read off a pattern: each must hold for every line the pattern matches, and none is claimed in doubt."""

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fault_attribution.matching.pattern_syntax import (
    AnchoredTail,
    Literals,
    anchored_tail,
    in_re2_syntax,
    may_take_newline,
    required_literals,
)


def texts(pattern: str) -> set[str] | None:
    found = required_literals(pattern)
    return None if found is None else set(found.texts)


@pytest.mark.parametrize(
    ("pattern", "required"),
    [
        (r".*training_loss_step (\d+(?:\.\d+)?).*", {"training_loss_step "}),
        (r".*\[Epoch 0 Batch \d+.*'training_loss_step': (\d+(\.\d+)?).*", {"'training_loss_step': "}),
        (r".*RuntimeError.*out of memory.*", {"out of memory"}),
        (r".* (.+)TFLOPs.*", {"TFLOPs"}),
        (r"(?P<step>\d+) saved", {" saved"}),
        (r"NCCL WARN|Watchdog caught|(?:ECC) error", {"NCCL WARN", "Watchdog caught", "ECC error"}),
        (r"(?:loss|perplexity)=\d", {"loss", "perplexity"}),
        (r"tokens?/s", {"token"}),
        (r"warnings+: x", {"warnings"}),
        (r"ab{2}cde", {"cde"}),
        (r"x% (?P<mount>/\S*)", {"x% /"}),
        (r"ab(?:cd(ef)\d)gh", {"abcdef"}),
        (r"abcd(def)+", {"abcd"}),
        (r"x\.y\[z\]", {"x.y[z]"}),
        (r"(abc)?def", {"def"}),
        (r"(abc){0,2}def", {"def"}),
        (r"a{b}c", {"a{b}c"}),
        (r"[^]x]abc", {"abc"}),
        (r"[]abc]xyz", {"xyz"}),
        (r"[[:alpha:]abc]xyz", {"xyz"}),
        (r"\x41bcd\tef", {"bcd\tef"}),
        (r"\pLabc", {"abc"}),
        (r"損失: \d", {"損失: "}),
        ("x" * 50, {"x" * 32}),
    ],
)
def test_fixed_text_is_found(pattern: str, required: set[str]) -> None:
    re2.compile(pattern)
    assert texts(pattern) == required


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d+\.\d+",
        r".*",
        r": ",
        r"abc|\d+",
        r"(abc|\d+)",
        r"(abc)*",
        r"a?b?c?d?",
        r"\Qabcdef\E",
        r"(?i)Größe",
        r"|".join(f"literal{n}" for n in range(100)),
        "\ufffd\ufffd",
    ],
)
def test_nothing_is_claimed_where_nothing_is_sure(pattern: str) -> None:
    assert required_literals(pattern) is None


def test_case_is_ignored_as_the_pattern_does() -> None:
    assert required_literals("(?i)Out Of Memory") == Literals(texts=frozenset({"Out Of Memory"}), ignore_case=True)
    assert required_literals("abc(?i:defghi)") == Literals(texts=frozenset({"abcdefghi"}), ignore_case=True)
    assert required_literals("abc(?i)de") == Literals(texts=frozenset({"abc"}), ignore_case=True)
    assert required_literals("abc(?s:.)(?-i:defg)") == Literals(texts=frozenset({"defg"}))
    assert required_literals("[Mm]em|RAM") == Literals(texts=frozenset({"mem", "RAM"}), ignore_case=True)
    assert required_literals("[Mn]em|RAM") is None
    assert required_literals(r"\d+%\|") == Literals(texts=frozenset({"%|"}))


@pytest.mark.parametrize(
    ("pattern", "tail"),
    [
        (r".*loss: (\d+).*", AnchoredTail(fixed="loss: ", pattern=r"loss: (\d+)")),
        (r".*\[a\] (x|y)", AnchoredTail(fixed="[a] ", pattern=r"\[a\] (x|y)")),
        (r".*abc+d.*", AnchoredTail(fixed="ab", pattern="abc+d")),
        (r".*abc\.*", AnchoredTail(fixed="abc", pattern=r"abc\.*")),
        (r".*abc.*?", AnchoredTail(fixed="abc", pattern=r"abc.*?")),
        (r".*?loss", None),
        (r".*a|b", None),
        (r"loss.*", None),
        (r".*(loss)", None),
        (r".*.*", None),
        (r".*", None),
    ],
)
def test_the_tail_of_a_pattern_that_begins_with_anything(pattern: str, tail: AnchoredTail | None) -> None:
    assert anchored_tail(pattern) == tail


@pytest.mark.parametrize(
    ("python", "expected"),
    [(r"a{,3}\Z", r"a{0,3}\z"), (r"[{,3}]\\Z", r"[{,3}]\\Z"), (r"\{,3}", r"\{,3}"), ("abc", "abc"), ("a\\", "a\\")],
)
def test_what_python_spells_differently(python: str, expected: str) -> None:
    assert in_re2_syntax(python) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [(r"x\s", True), (r"[^x]", True), (r"(?s).", True), (r"x\n", True), (r"x.*\d\w$", False), ("x\n", True)],
)
def test_patterns_that_can_take_a_newline(pattern: str, expected: bool) -> None:
    assert may_take_newline(pattern) is expected


ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "abc",
        r"\.",
        ".",
        r"\d",
        "[ab]",
        "[^a]",
        "^",
        "$",
        r"\b",
        "(?:ab|c)",
        "(a|b)",
        "(?i:bca)",
        "(?i)",
        "[aA]",
        "(?s:b)",
        "%1",
        r"\|",
    ]
)
QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,2}", "*?", "{1,}"])
BRANCHES = st.lists(st.tuples(ATOMS, QUANTIFIERS).map("".join), min_size=1, max_size=6).map("".join)
PATTERNS = st.lists(BRANCHES, min_size=1, max_size=3).map("|".join)


def accepted(pattern: str) -> bool:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error:
        return False
    return True


@example("abc(?i)|abc(?i)*", "AB")  # what is repeated is the c: RE2 takes flags for nothing
@settings(max_examples=300, deadline=None)
@given(PATTERNS.filter(accepted), st.text(alphabet="abcABC.1%| ", max_size=24))
def test_a_match_always_contains_a_required_text(pattern: str, line: str) -> None:
    required = required_literals(pattern)
    if required is not None and re2.search(pattern, line):
        fold = str.lower if required.ignore_case else str
        assert any(fold(text) in fold(line) for text in required.texts), (pattern, line, required)


@settings(max_examples=300, deadline=None)
@given(BRANCHES.map(".*".__add__).filter(accepted), st.text(alphabet="abc.1 ", max_size=24))
def test_the_tail_captures_what_the_whole_pattern_does(pattern: str, line: str) -> None:
    tail = anchored_tail(pattern)
    if tail is None or tail.fixed not in line:
        return
    whole = re2.match(pattern, line.encode())
    short = re2.compile(tail.pattern).match(line.encode(), line.rfind(tail.fixed))
    if short is not None:
        assert whole is not None, (pattern, line)
        assert whole.groups() == short.groups(), (pattern, line)
    elif line.find(tail.fixed) == line.rfind(tail.fixed):
        assert whole is None, (pattern, line)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("device lostx*", "device lost"),
        ("device lostx+", "device lostx"),
        ("device los{2}t", "device los"),
        (r"a device lost\.*", "a device lost"),
        ("(?:a device lost)? for good", " for good"),
    ],
)
def test_plain_text_is_read_at_once_and_a_quantifier_takes_its_last_character(pattern: str, text: str) -> None:
    found = required_literals(pattern)
    assert found is not None
    assert found.texts == {text}

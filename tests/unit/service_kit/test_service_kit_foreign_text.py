"""Foreign text cannot move a cursor, colour, hide, turn round or make a line of its own."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from service_kit.foreign_text import printable, printable_lines

HARMFUL = {
    "clear the screen": "\x1b[2J\x1b[H",
    "set the title": "\x1b]0;owned\x07",
    "8-bit control sequence": "\x9b31m",
    "go back over the line": "ok\r" + "bad",
    "second line": "a\nphalanx: job ended",
    "line separator": "a\u2028b",
    "right to left": "a\u202egnp.exe",
    "isolate": "\u2066x\u2069",
    "zero width": "pass\u200bword",
    "lone surrogate": "\ud800",
    "delete": "\x7f",
    "nul": "\0",
}


def test_nothing_harmful_is_left() -> None:
    for what, text in HARMFUL.items():
        shown = printable(text)
        assert shown.isprintable(), what
        assert len(shown) == len(text), what


def test_words_of_people_stay_as_they_are() -> None:
    for text in ("rank 3: ValueError: übergroß → 日本語 😀", "", " a  b "):
        assert printable(text) == text


def test_a_traceback_keeps_its_lines() -> None:
    assert printable_lines("Traceback:\n\tFile \x1b[31m\n  x") == "Traceback:\n\tFile ?[31m\n  x"


@given(st.text(st.characters(codec=None)))
def test_no_control_or_format_character_is_left(text: str) -> None:
    assert not {unicodedata.category(c) for c in printable(text)} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert printable_lines(text).count("\n") == text.count("\n")

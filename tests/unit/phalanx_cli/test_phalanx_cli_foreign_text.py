"""Whatever a command prints goes through the one function that makes foreign text harmless."""

import pytest

from phalanx_cli.commands.bus_question import fail
from phalanx_cli.foreign_text import print_lines

EVIL = "\x1b]0;owned\x07 \u202e\nphalanx: forged"


def test_lines_and_errors_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines([f"node {EVIL}"])
    fail("job", f"the server says {EVIL}", 69)
    out, err = capsys.readouterr()
    assert out == "node ?]0;owned? ??phalanx: forged\n"
    assert err == "phalanx job: the server says ?]0;owned? ??phalanx: forged\n"

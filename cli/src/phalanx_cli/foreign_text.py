"""Text of others on a terminal or into a pipe: it cannot move the cursor, and a pipe may close early."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable


def printable(line: str) -> str:
    """A foreign text must not move the cursor or make a second line."""
    return "".join(c if c.isprintable() else "?" for c in line)


def print_lines(lines: Iterable[str]) -> None:
    """Write to stdout, also into a pipe whose reader leaves."""
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has seen enough; what is left in the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

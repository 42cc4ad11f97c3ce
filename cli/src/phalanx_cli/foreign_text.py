"""Text of others on a terminal or into a pipe: it cannot move the cursor, and a pipe may close early."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from service_kit.foreign_text import printable as printable


def print_lines(lines: Iterable[str]) -> None:
    """Write to stdout, also into a pipe whose reader leaves. Every line is made printable, whoever wrote it."""
    try:
        for line in lines:
            sys.stdout.write(printable(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has seen enough; what is left in the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""What can go wrong while a stack starts, as one exception that a person can act on."""

from pathlib import Path

LOG_TAIL_LINES = 12
"""Lines of a log that a message quotes: a fatal line and what led to it, still one screen."""

LOG_TAIL_BYTES = 16 * 1024
"""Bytes read from the end of a log for that: bounds the cost when a line is endless."""


class StackError(Exception):
    """A server or service could not be started, reached or stopped.

    The message is for a person: what failed, why (in the process's own words where it has any) and where the log lies.
    """


def log_tail(path: Path, *, from_offset: int = 0) -> str:
    """Return the last lines of a log, from `from_offset` (bytes) on, or an empty string when there are none."""
    try:
        with path.open("rb") as log:
            size_bytes = log.seek(0, 2)
            log.seek(max(from_offset, size_bytes - LOG_TAIL_BYTES, 0))
            text = log.read(LOG_TAIL_BYTES).decode("utf-8", errors="replace")
    except OSError:
        # The quote is a courtesy in a message about something worse; that one must not be replaced by this one.
        return ""
    return "\n".join(text.rstrip().splitlines()[-LOG_TAIL_LINES:])


def with_log_tail(sentence: str, path: Path, *, from_offset: int = 0) -> StackError:
    """Return an error that says the sentence, names the log and quotes its end."""
    tail = log_tail(path, from_offset=from_offset)
    quoted = "\n".join(f"    {line}" for line in tail.splitlines()) if tail else "    (it wrote nothing)"
    return StackError(f"{sentence}\n  last lines of {path}:\n{quoted}")

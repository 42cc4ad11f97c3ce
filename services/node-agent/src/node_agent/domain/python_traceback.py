"""Reads Python tracebacks as text, and gives the same mistake the same fingerprint wherever it happens.

Pure. Used on error files (their call stack is such a text) and, when a worker left none, on the end of its stderr.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

FRAMES_MAX = 64
"""Innermost frames kept; a recursion error has a thousand and they repeat."""
FINGERPRINT_FRAMES = 3
"""Innermost frames of the user's own code in a fingerprint: enough to tell callers apart, few enough to be stable."""

HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "([^"]*)", line (\d+)(?:, in (.*))?$')
_ERROR = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", re.DOTALL)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_PATH = re.compile(r"(?:/[^\s/:'\",]+){2,}")
_NUMBER = re.compile(r"\d+")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|^<frozen |^<string>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One frame of a traceback; `source` is the line's text, empty when the traceback has none."""

    file: str
    line: int
    function: str
    source: str = ""

    @property
    def in_library(self) -> bool:
        """True for installed packages and the standard library."""
        return _LIBRARY.search(self.file) is not None

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}" + (f": {self.source}" if self.source else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTraceback:
    """The exception that was not caught: the last block of a chain."""

    type: str
    message: str
    frames: tuple[Frame, ...]


def parse_last_traceback(lines: Sequence[str]) -> ParsedTraceback | None:
    """The last complete traceback in these lines, or None. Lines may carry a prefix-free log around it."""
    start = next((i for i in range(len(lines) - 1, -1, -1) if lines[i].strip() == HEADER), None)
    if start is None:
        return None
    frames: list[Frame] = []
    for i in range(start + 1, len(lines)):
        line = lines[i]
        match = _FRAME.match(line)
        if match is not None:
            source = lines[i + 1].strip() if i + 1 < len(lines) else ""
            if _FRAME.match(lines[i + 1]) if i + 1 < len(lines) else False:
                source = ""
            frames.append(Frame(file=match[1], line=int(match[2]), function=match[3] or "<module>", source=source))
        elif line[:1] not in (" ", "", "\t"):
            error = _ERROR.match(line)
            if error is None:
                return None
            message = "\n".join([error[2] or "", *_continuation(lines[i + 1 :])]).strip()
            return ParsedTraceback(
                type=error[1].rpartition(".")[2], message=message, frames=tuple(frames[-FRAMES_MAX:])
            )
    return None


def _continuation(lines: Sequence[str]) -> list[str]:
    """Further lines of a message: up to an empty line, at most ten, since nothing marks where a message ends."""
    taken: list[str] = []
    for line in lines[:10]:
        if not line.strip():
            break
        taken.append(line)
    return taken


def fingerprint(error_type: str, message: str, frames: Sequence[Frame]) -> str:
    """16 hex digits: the same for the same mistake on any rank, attempt and machine.

    Over the exception's type and the innermost frames of the user's code (base name, function, source text; of all
    code when the user has none), without line numbers. The message counts only when there is no frame, with
    addresses, paths and digits taken out.
    """
    own = [frame for frame in frames if not frame.in_library] or list(frames)
    parts = [error_type]
    for frame in own[-FINGERPRINT_FRAMES:]:
        parts += [frame.file.rpartition("/")[2], frame.function, normalise(frame.source)]
    if not own:
        parts.append(normalise(message))
    return hashlib.sha256("\x00".join(parts).encode(errors="backslashreplace")).hexdigest()[:16]


def normalise(text: str) -> str:
    """Text without what differs between two runs of the same mistake."""
    text = _ADDRESS.sub("<address>", text)
    text = _PATH.sub("<path>", text)
    return " ".join(_NUMBER.sub("<n>", text).split())

"""Names of checkpoints in a watched folder: which step, and of which rank when each rank writes its own.

`{step}` and `{rank}` are whole numbers, `*` is anything within one name, `/` goes down one folder. Names that are still
being written (`.tmp` and its like) and side files (`.sha256`) are no checkpoints whatever the pattern says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DEPTH_MAX = 4
"""Folders down that a pattern may reach; each level is one more listing in each look."""
LENGTH_MAX = 512
STARS_MAX = 2
"""In one name; each one more multiplies the time to see that a name does not match."""
SIDE_SUFFIXES = (".sha256",)

_HOLES = re.compile(r"\{step\}|\{rank\}|\*|/")
_NUMBER = {"{step}": r"(?<!\d)(?P<step>\d{1,15})(?!\d)", "{rank}": r"(?<!\d)(?P<rank>\d{1,7})(?!\d)"}
_WRITING = re.compile(
    r"^\.|~$|^tmp|\.part$|[._-](?:tmp|temp|partial|incomplete|inprogress)(?:[._-]|\d|$)",
    re.IGNORECASE,
)


class BadPattern(ValueError):
    """A pattern that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameMatch:
    """What a name says; `rank` None: the pattern has none."""

    step: int
    rank: int | None
    rank_span: tuple[int, int] | None = None
    """Where in the path the rank's number stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePattern:
    """One pattern, level by level: `levels[i]` matches a name at depth i; `whole` reads the path."""

    text: str
    levels: tuple[re.Pattern[str], ...]
    whole: re.Pattern[str]
    has_rank: bool

    def match(self, path: str) -> NameMatch | None:
        """Read a path that is relative to the watched folder."""
        found = self.whole.fullmatch(path)
        if found is None or any(is_being_written(name) for name in path.split("/")):
            return None
        if path.endswith(SIDE_SUFFIXES):
            return None
        if not self.has_rank:
            return NameMatch(step=int(found["step"]), rank=None)
        return NameMatch(step=int(found["step"]), rank=int(found["rank"]), rank_span=found.span("rank"))


_BY_DEFAULT = re.compile(r"[^/]*?(?<!\d)(?P<step>\d{1,15})(?!\d)(?:\.[A-Za-z]\w{0,15}){0,2}")
DEFAULT_PATTERN = NamePattern(text="*{step}[.ext]", levels=(_BY_DEFAULT,), whole=_BY_DEFAULT, has_rank=False)
"""A name whose stem ends in the step: checkpoint-100, iter_0000100, step_100.pt, epoch=3-step=100.ckpt. An extension
begins with a letter, so that ckpt_100.h5 is not step 5."""


def is_being_written(name: str) -> bool:
    """A name that says of itself that it is not finished, or hidden."""
    return _WRITING.search(name) is not None


def parse_pattern(text: str) -> NamePattern:
    """Read a pattern.

    Raises:
        BadPattern: without {step}, with a part twice, or out of bounds.
    """
    if text.count("{step}") != 1 or text.count("{rank}") > 1:
        raise BadPattern(f"{text[:80]!r} needs {{step}} once, and {{rank}} once at most")
    if len(text) > LENGTH_MAX:
        raise BadPattern(f"{text[:20]!r}... is longer than {LENGTH_MAX} characters")
    names = text.split("/")
    if len(names) > DEPTH_MAX or any(name in ("", ".", "..") for name in names):
        raise BadPattern(f"{text!r} must be relative, without . and .., and at most {DEPTH_MAX} names deep")
    if any(name.count("*") > STARS_MAX for name in names):
        raise BadPattern(f"{text!r} has more than {STARS_MAX} * in one name")
    levels = tuple(re.compile(_expression(name)) for name in names)
    return NamePattern(text=text, levels=levels, whole=re.compile(_expression(text)), has_rank="{rank}" in text)


def _expression(text: str) -> str:
    parts, place = [], 0
    for hole in _HOLES.finditer(text):
        parts.append(re.escape(text[place : hole.start()]))
        parts.append(_NUMBER.get(hole.group()) or ("/" if hole.group() == "/" else "[^/]*"))
        place = hole.end()
    return "".join([*parts, re.escape(text[place:])])

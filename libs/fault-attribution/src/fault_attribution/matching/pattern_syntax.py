"""Reads a regular expression in RE2's syntax as text: what it cannot match without, and where its fixed text begins.

RE2 decides what a pattern means; this only finds shortcuts, and gives none where it is not sure. A pattern it reads
has been accepted by RE2 before, so nothing here reports errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

LITERAL_BYTES_MIN = 3
"""Shorter fixed text (`: `) stands in most lines and would filter nothing; two different signs (`%|`) are rare."""
LITERAL_CHARS_MAX = 32
LITERALS_MAX = 96
"""Alternatives of one pattern; 32 characters of each tell them apart. A signature may list 50 wordings."""

_PLAIN = re.compile(r"[^\\\[\]().^$|*+?{}\n\r\ufffd]+(?![*+?{])")
"""Characters that mean themselves; a quantifier behind them would belong to the last one alone."""
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d+)(?:,\d*)?\})\??")
_GROUP_START = re.compile(r"\(\?(?:P?<\w+>|([a-zA-Z-]*)([:)]))")
_ESCAPE = re.compile(r"\\(?:x\{[0-9a-fA-F]+\}|x[0-9a-fA-F]{2}|[0-7]{1,3}|[pP](?:\{[^}]*\}|.)|.)", re.DOTALL)
_OPEN_REPEAT = re.compile(r"\{,(\d+)\}")
_TAKES_NEWLINE = re.compile(r"\\[sWDnrvxpPC0-7]|\[\^|\[:|\(\?[a-zA-Z]*s|[\n\r]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Literals:
    """Any match contains at least one of these texts."""

    texts: frozenset[str]
    ignore_case: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchoredTail:
    """A pattern of the form `.*FIXED...`: where `pattern` matches at a line's last FIXED, the whole does."""

    fixed: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """One quantified piece of a branch: a character or several plain ones, a group, or something else.

    Attributes:
        char: what plain characters match.
        inside: what a group requires.
        inner: the pieces of a group with one alternative: its text goes on with what is around it.
        least: fewest repetitions.
        is_single: not quantified at all.
    """

    start: int
    end: int
    char: str | None = None
    inside: frozenset[str] | None = None
    inner: tuple[_Item, ...] = ()
    least: int = 1
    is_single: bool = True


class _Unreadable(Exception):
    """A construct whose effect is not followed."""


@lru_cache(maxsize=4_096)
def in_re2_syntax(pattern: str) -> str:
    r"""Rewrite what Python's `re` spells differently: `{,n}` (to RE2 fixed text) and `\Z` (to RE2 an error)."""
    if "{," not in pattern and "\\Z" not in pattern:
        return pattern
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            escape = pattern[at : at + 2]
            parts.append("\\z" if escape == "\\Z" else escape)
            at += 2
        elif pattern[at] == "[":
            end = _class_end(pattern, at)
            parts.append(pattern[at:end])
            at = end
        elif (repeat := _OPEN_REPEAT.match(pattern, at)) is not None:
            parts.append(f"{{0,{repeat[1]}}}")
            at = repeat.end()
        else:
            parts.append(pattern[at])
            at += 1
    return "".join(parts)


def required_literals(pattern: str) -> Literals | None:
    """The best set of texts of which any match contains one; None when there is none worth searching for."""
    reader = _Reader(pattern, 0)
    try:
        texts = reader.required()
    except (_Unreadable, RecursionError):
        return None
    if texts is None or (reader.ignores_case and not all(text.isascii() for text in texts)):
        return None
    texts = frozenset(text[:LITERAL_CHARS_MAX] for text in texts)
    if not all(map(_is_rare, texts)):
        return None
    return Literals(texts=texts, ignore_case=reader.ignores_case)


def anchored_tail(pattern: str) -> AnchoredTail | None:
    """The tail of a `.*FIXED...` pattern; None for any other form.

    The greedy `.*` in front takes as much as it can, so the last FIXED in a line is tried first, and what it captures
    counts. A `.*` at the very end matches whatever is left and is dropped.
    """
    if not pattern.startswith(".*"):
        return None
    try:
        branches = _Reader(pattern, 0).branches()
    except (_Unreadable, RecursionError):
        return None
    if len(branches) != 1:
        return None
    first, *rest = branches[0]
    if pattern[first.start : first.end] != ".*":
        return None
    fixed = ""
    for item in rest:
        if item.char is None or not item.is_single:
            break
        fixed += item.char
    if not fixed:
        return None
    last = rest[-1]
    end = last.start if pattern[last.start : last.end] == ".*" else len(pattern)
    return AnchoredTail(fixed=fixed, pattern=pattern[rest[0].start : end])


def may_take_newline(pattern: str) -> bool:
    r"""Whether the pattern can match a newline: HyperPod's lines end with theirs, and `\s` may mean that one."""
    return _TAKES_NEWLINE.search(pattern) is not None


class _Reader:
    """Recursive descent over one pattern."""

    def __init__(self, pattern: str, at: int) -> None:
        self._pattern = pattern
        self._at = at
        self.ignores_case = False
        """Whether any part does; then all texts are looked for so, which finds more and loses nothing."""

    def required(self) -> frozenset[str] | None:
        """Of the whole pattern."""
        return _required_of(self.branches())

    def branches(self) -> list[list[_Item]]:
        """Alternatives up to the closing parenthesis or the end."""
        branches: list[list[_Item]] = [[]]
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            if self._pattern[self._at] == "|":
                branches.append([])
                self._at += 1
            else:
                branches[-1].append(self._item())
        return branches

    def _item(self) -> _Item:
        start = self._at
        plain = _PLAIN.match(self._pattern, start)
        if plain is not None:  # most of a pattern; one piece for all of it
            self._at = plain.end()
            return _Item(start=start, end=self._at, char=plain.group())
        char: str | None = None
        inside: frozenset[str] | None = None
        inner: tuple[_Item, ...] = ()
        symbol = self._pattern[start]
        if symbol == "\\":
            char = self._escape()
        elif symbol == "[":
            self._at = _class_end(self._pattern, start)
            char = self._letter_of_both_cases(self._pattern[start : self._at])
        elif symbol == "(":
            inside, inner = self._group()
        else:
            self._at += 1
            char = None if symbol in ".^$\n\r\ufffd" else symbol
        body_end = self._at
        least = 1
        while (quantifier := _QUANTIFIER.match(self._pattern, self._at)) is not None:
            self._at = quantifier.end()
            text = quantifier.group()
            least *= int(quantifier[1]) if quantifier[1] is not None else int(text[0] == "+")
        is_single = self._at == body_end
        return _Item(start=start, end=self._at, char=char, inside=inside, inner=inner, least=least, is_single=is_single)

    def _escape(self) -> str | None:
        escape = _ESCAPE.match(self._pattern, self._at)
        if escape is None or escape.group() == "\\Q":
            raise _Unreadable
        self._at = escape.end()
        symbol = escape.group()[1:]
        if symbol == "t":
            return "\t"
        return symbol if len(symbol) == 1 and not symbol.isalnum() and symbol not in "\n\r" else None

    def _letter_of_both_cases(self, text: str) -> str | None:
        """The letter of a class like `[Mm]`; any other class is no fixed text."""
        if len(text) == 4 and text[1].isalpha() and text[2].isalpha() and text[1].lower() == text[2].lower():
            self.ignores_case = True
            return text[2]
        return None

    def _group(self) -> tuple[frozenset[str] | None, tuple[_Item, ...]]:
        begin = _GROUP_START.match(self._pattern, self._at)
        flags = (begin[1] or "") if begin else ""
        if "i" in flags.partition("-")[0]:
            self.ignores_case = True
        if begin is None:
            if self._pattern.startswith("(?", self._at):
                raise _Unreadable
            self._at += 1
        else:
            self._at = begin.end()
            if begin[2] == ")":  # flags for what follows
                if _QUANTIFIER.match(self._pattern, self._at) is not None:
                    raise _Unreadable  # RE2 repeats what stands in front of the flags
                return None, ()
        branches = self.branches()
        self._at += 1
        return _required_of(branches), tuple(branches[0]) if len(branches) == 1 else ()


def _is_rare(text: str) -> bool:
    """Whether looking for a text leaves most lines out."""
    is_sign_pair = len(text) == 2 and text[0] != text[1] and not any(char.isalnum() or char.isspace() for char in text)
    return is_sign_pair or len(text.encode()) >= LITERAL_BYTES_MIN


def _class_end(pattern: str, at: int) -> int:
    """Index after a bracketed class that begins at `at`."""
    at += 1
    if pattern.startswith("^", at):
        at += 1
    if pattern.startswith("]", at):
        at += 1
    while at < len(pattern) and pattern[at] != "]":
        named_end = pattern.find(":]", at + 2) if pattern.startswith("[:", at) else -1
        if named_end >= 0:
            at = named_end + 2
        else:
            at += 2 if pattern[at] == "\\" else 1
    return min(at + 1, len(pattern))


def _required_of(branches: list[list[_Item]]) -> frozenset[str] | None:
    """One text of each alternative; None when an alternative has none, or when they are too many."""
    union: set[str] = set()
    for branch in branches:
        candidates = sorted(_candidates(branch), key=_worth)
        if not candidates:
            return None
        union.update(candidates[-1])
    return frozenset(union) if len(union) <= LITERALS_MAX else None


def _candidates(branch: list[_Item]) -> Iterator[frozenset[str]]:
    """Texts that every match of this branch contains: its runs of plain characters, and what its groups require."""
    run = ""
    for item in _flat(branch):
        if item.char is not None and item.is_single:
            run += item.char
            continue
        if item.char is not None and item.least > 0:
            run += item.char
        if run:
            yield frozenset({run})
        run = ""
        if item.inside is not None and item.least > 0:
            yield item.inside
    if run:
        yield frozenset({run})


def _flat(branch: Iterable[_Item]) -> Iterator[_Item]:
    """The pieces, with those of groups that are there exactly once in place of the group."""
    for item in branch:
        if item.inner and item.is_single:
            yield from _flat(item.inner)
        else:
            yield item


def _worth(texts: frozenset[str]) -> tuple[bool, int, int]:
    """Longer texts filter more; fewer cost less."""
    return all(map(_is_rare, texts)), min(LITERAL_CHARS_MAX, *map(len, texts)), -len(texts)

"""The small language of cause rules: what has to be seen, where, how often.

    TERM  = ATOM { " & " ATOM }
    ATOM  = ["!"] KIND { "|" KIND } [ "[" COND { ", " COND } "]" ] [ "@" SCOPE ]
    COND  = name OP value           OP: = != >= <= > < ~

KIND may end in `*`. A COND names a capture, or `role`, `source`, `rank`, `node`, `device`; or a number of what is left:
 `count`, `nodes`, `ranks`, `devices`, `processes`. SCOPE compares with the anchor of the hypothesis: node,
rank, device, process (the same one), elsewhere (another node), others (another rank).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from fault_attribution.finding import Finding

_ATOM = re.compile(
    r"^(?P<no>!)?(?P<kinds>[a-z0-9_*]+(?:\|[a-z0-9_*]+)*)(?:\[(?P<conds>[^\]]+)\])?(?:@(?P<scope>[a-z]+))?$"
)
_COND = re.compile(r"^(?P<name>[a-z_][a-z0-9_]*)(?P<op>!=|>=|<=|=|>|<|~)(?P<value>.+)$")


class TermRefused(ValueError):
    """A term that is not of the language; the message is for its author."""


class Scope(StrEnum):
    """Where an atom looks, relative to the anchor."""

    ANYWHERE = "anywhere"
    NODE = "node"
    RANK = "rank"
    DEVICE = "device"
    PROCESS = "process"
    ELSEWHERE = "elsewhere"
    OTHERS = "others"

    def admits(self, finding: Finding, anchor: Finding | None) -> bool:
        """Whether a finding is in reach. Without an anchor only ANYWHERE reaches anything."""
        if self is Scope.ANYWHERE:
            return True
        return anchor is not None and _REACH[self](finding, anchor)


_REACH: dict[Scope, Callable[[Finding, Finding], bool]] = {
    Scope.NODE: lambda one, anchor: one.node != "" and one.node == anchor.node,
    Scope.RANK: lambda one, anchor: one.rank is not None and one.rank == anchor.rank,
    Scope.DEVICE: lambda one, anchor: one.device != "" and one.device == anchor.device and one.node == anchor.node,
    Scope.PROCESS: lambda one, anchor: one.process != "" and one.process == anchor.process and one.node == anchor.node,
    Scope.ELSEWHERE: lambda one, anchor: one.node != "" and anchor.node != "" and one.node != anchor.node,
    Scope.OTHERS: lambda one, anchor: one.rank is not None and anchor.rank is not None and one.rank != anchor.rank,
}
_COUNTED: dict[str, Callable[[Sequence[Finding]], int]] = {
    "count": lambda found: sum(each.count for each in found),
    "nodes": lambda found: len({each.node for each in found if each.node}),
    "ranks": lambda found: len({each.rank for each in found if each.rank is not None}),
    "devices": lambda found: len({(each.node, each.device) for each in found if each.device}),
    "processes": lambda found: len({(each.node, each.process) for each in found if each.process}),
}
_FIELDS: dict[str, Callable[[Finding], str]] = {
    "role": lambda one: str(one.role),
    "source": lambda one: str(one.source),
    "rank": lambda one: "" if one.rank is None else str(one.rank),
    "node": lambda one: one.node,
    "device": lambda one: one.device,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cond:
    """One comparison."""

    name: str
    op: str
    value: str

    def holds(self, text: str | None) -> bool:
        """Compare a text, as numbers where both are. An absent one is equal to nothing."""
        if text is None:
            return self.op == "!="
        if self.op == "~":
            return _compiled(self.value).search(text) is not None
        left, right = _number(text), _number(self.value)
        if left is None or right is None:
            return self.op in ("=", "!=") and (text.lower() == self.value.lower()) == (self.op == "=")
        return {
            "=": left == right, "!=": left != right, ">=": left >= right, "<=": left <= right,
            ">": left > right, "<": left < right,
        }[self.op]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """One thing that has to be seen, or must not be."""

    kinds: tuple[str, ...]
    negated: bool
    conds: tuple[Cond, ...]
    counts: tuple[Cond, ...]
    scope: Scope

    def found(self, by_kind: FindingsByKind, anchor: Finding | None) -> tuple[Finding, ...]:
        """The findings that it means, in stable order; empty when the numbers it asks for are not there."""
        left = by_kind.of(self.kinds)
        if not left:  # most of what rules ask for is not there
            return ()
        if self.scope is not Scope.ANYWHERE:
            left = tuple([each for each in left if self.scope.admits(each, anchor)])
        for cond in self.conds:
            left = tuple([each for each in left if cond.holds(_value(each, cond.name))])
        if self.counts and not all(cond.holds(str(_COUNTED[cond.name](left))) for cond in self.counts):
            return ()
        return left


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A conjunction of atoms, and how its author wrote it."""

    text: str
    atoms: tuple[Atom, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """All kinds that it names."""
        return frozenset(kind for atom in self.atoms for kind in atom.kinds)

    def anchors(self, by_kind: FindingsByKind) -> tuple[Finding, ...]:
        """What the first atom means: each may be the anchor of a hypothesis."""
        first = self.atoms[0]
        return () if first.negated else first.found(by_kind, None)

    def holds(
        self, by_kind: FindingsByKind, anchor: Finding | None, *, skip_first: bool = False
    ) -> tuple[Finding, ...] | None:
        """What it rests on when every atom holds, nothing for negations only; None when one does not hold."""
        seen: tuple[Finding, ...] = ()
        for atom in self.atoms[1:] if skip_first else self.atoms:
            found = atom.found(by_kind, anchor)
            if bool(found) == atom.negated:
                return None
            seen += found
        return seen


class FindingsByKind:
    """Findings of an incident by kind, each list in stable order."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        by_kind: dict[str, list[Finding]] = {}
        for each in sorted(findings, key=lambda finding: finding.place):
            by_kind.setdefault(each.kind, []).append(each)
        self._by_kind = {kind: tuple(found) for kind, found in by_kind.items()}
        self._asked: dict[tuple[str, ...], tuple[Finding, ...]] = {}

    @property
    def kinds(self) -> Iterable[str]:
        """All kinds that were found."""
        return self._by_kind.keys()

    def of(self, kinds: Sequence[str]) -> tuple[Finding, ...]:
        """All of these kinds. Many rules ask for the same ones."""
        asked = tuple(kinds)
        known = self._asked.get(asked)
        if known is None:
            known = self._asked[asked] = tuple(self._found(asked))
        return known

    def _found(self, kinds: Sequence[str]) -> Iterator[Finding]:
        for kind in kinds:
            if kind.endswith("*"):
                for name in sorted(self._by_kind):
                    if name.startswith(kind[:-1]):
                        yield from self._by_kind[name]
            else:
                yield from self._by_kind.get(kind, ())


@lru_cache(maxsize=8_192)
def parse_term(text: str) -> Term:
    """Read a term.

    Raises:
        TermRefused: with what was not understood.
    """
    atoms = tuple(_parse_atom(part.strip()) for part in text.split("&"))
    return Term(text=text, atoms=atoms)


def _parse_atom(text: str) -> Atom:
    matched = _ATOM.match(text)
    if matched is None:
        raise TermRefused(f"{text!r} is no atom: [!]kind[|kind][[name=value, ...]][@scope]")
    scope = matched["scope"] or Scope.ANYWHERE
    if scope not in tuple(Scope):
        raise TermRefused(f"scope {scope!r} is not one of {', '.join(Scope)}")
    conds = [_parse_cond(part.strip()) for part in (matched["conds"] or "").split(", ") if part.strip()]
    return Atom(
        kinds=tuple(matched["kinds"].split("|")),
        negated=matched["no"] is not None,
        conds=tuple(cond for cond in conds if cond.name not in _COUNTED),
        counts=tuple(cond for cond in conds if cond.name in _COUNTED),
        scope=Scope(scope),
    )


def _parse_cond(text: str) -> Cond:
    matched = _COND.match(text)
    if matched is None:
        raise TermRefused(f"{text!r} is no condition: name, one of = != >= <= > < ~, value")
    if matched["op"] == "~":
        try:
            _compiled(matched["value"])
        except re.error as error:
            raise TermRefused(f"{matched['value']!r} is no pattern: {error}") from error
    return Cond(name=matched["name"], op=matched["op"], value=matched["value"])


def _value(finding: Finding, name: str) -> str | None:
    read = _FIELDS.get(name)
    return read(finding) if read is not None else finding.captures.get(name)


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@lru_cache(maxsize=4_096)
def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

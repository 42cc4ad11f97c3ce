"""What is new in the watched folder, and from when on it is finished: one look after the other, without a clock.

A name is finished when it came by a rename (its inode was seen under a name that is still being written), or when
nothing in it changed for a while. The generation that wrote it is the one that ran when it was first seen so; what the
first look after a change of generation finds belongs to the one before. Both err to the safe side: at worst a
checkpoint counts for an older generation, or later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

REMEMBERED_MAX = 1_024
"""Names kept in mind, the largest steps first: 64 steps of 16 local ranks."""
WRITING_MAX = 4_096
"""Unfinished names whose inode is kept in mind, to know their rename."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A name that matches, as one look saw it. `state` changes when anything in it does."""

    path: str
    step: int
    rank: int | None
    inode: int
    state: tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the folder: matching names, and the inodes of names that are being written."""

    entries: tuple[Entry, ...] = ()
    writing: frozenset[int] = frozenset()
    is_missing: bool = False
    """The folder does not exist yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A name that is finished, and the generation it counts for."""

    entry: Entry
    topology_version: int
    renamed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    entry: Entry
    topology_version: int
    since_s: float
    told: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """What is known of the folder."""

    known: dict[str, _Known] = field(default_factory=dict)
    writing: frozenset[int] = frozenset()
    topology_version: int = 0

    @classmethod
    def before_the_job(cls, look: Look) -> Arrivals:
        """All that is there was there before: it is nobody's checkpoint of this job until it changes."""
        known = {entry.path: _Known(entry=entry, topology_version=0, since_s=0.0, told=True) for entry in look.entries}
        return cls(known=_newest(known), writing=look.writing)


def observe(
    arrivals: Arrivals, look: Look, *, topology_version: int, now_s: float, stable_s: float
) -> tuple[Arrivals, tuple[Arrival, ...]]:
    """Take one look in; returns what is finished now, in rising order of steps.

    Args:
        arrivals: what was known.
        look: what is there.
        topology_version: the generation that runs now.
        now_s: monotonic.
        stable_s: a name without a rename is finished when it did not change for so long.
    """
    # Between two looks the generation may have changed, and then what is new came from the one before.
    writer = arrivals.topology_version or topology_version
    finished: list[Arrival] = []
    known: dict[str, _Known] = {}
    for entry in look.entries:
        old = arrivals.known.get(entry.path)
        if old is None or (old.entry.state, old.entry.inode) != (entry.state, entry.inode):
            renamed = entry.inode in arrivals.writing
            new = _Known(entry=entry, topology_version=writer, since_s=now_s, told=False)
        else:
            renamed, new = False, old
        if not new.told and (renamed or now_s - new.since_s >= stable_s):
            new = replace(new, told=True)
            finished.append(Arrival(entry=entry, topology_version=new.topology_version, renamed=renamed))
        known[entry.path] = new
    after = Arrivals(known=_newest(known), writing=_some(look.writing), topology_version=topology_version)
    return after, tuple(sorted(finished, key=lambda arrival: (arrival.entry.step, arrival.entry.path)))


def again(arrivals: Arrivals, paths: Iterable[str], *, now_s: float) -> Arrivals:
    """These were finished and did not pass the check: wait for them to be stable once more."""
    known = dict(arrivals.known)
    for path in paths:
        if path in known:
            known[path] = replace(known[path], told=False, since_s=now_s)
    return replace(arrivals, known=known)


def _newest(known: dict[str, _Known]) -> dict[str, _Known]:
    if len(known) <= REMEMBERED_MAX:
        return known
    kept = sorted(known.items(), key=lambda item: (item[1].entry.step, item[0]))[-REMEMBERED_MAX:]
    return dict(kept)


def _some(inodes: frozenset[int]) -> frozenset[int]:
    return inodes if len(inodes) <= WRITING_MAX else frozenset(sorted(inodes)[-WRITING_MAX:])

"""Where each rank's part of a checkpoint lies, as rules: `/ckpt/10/rank{rank}.pt` instead of 100,000 paths.

A rule is learned when a second rank tells a path that differs from the first one's by the rank's number only. What
fits no rule within the limit goes to the last group, which knows a common folder and nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fault_contracts.checkpoints import RankPaths, rank_path
from recovery_planner.domain.rank_set import RankSet, add, contains, count

GROUPS_MAX = 16
"""Rules per checkpoint: pipeline stages or nodes with paths of their own. Each may hold 4 KiB of text, and a job has
up to 32 checkpoints in one record of 1 MB."""
RUNS_MAX = 6
"""Places in a path that may hold the rank's number; a path with more of the same number is taken as it is."""

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PathGroup:
    """Ranks whose paths follow one rule.

    Attributes:
        parts: the path with the rank's number cut out; one part is the path itself.
        width: least number of digits.
        is_folder: the rule is a folder that all of these ranks' paths lie in, for want of anything better.
    """

    ranks: RankSet
    parts: tuple[str, ...]
    width: int = 1
    is_folder: bool = False


def note_path(groups: tuple[PathGroup, ...], rank: int, path: str) -> tuple[PathGroup, ...]:
    """The groups with the path of one rank more. The first path of a rank counts; no path changes nothing."""
    if not path or any(contains(group.ranks, rank) for group in groups):
        return groups
    for place, group in enumerate(groups):
        if not group.is_folder and rank_path(group.parts, group.width, rank) == path:
            return _put(groups, place, replace(group, ranks=add(group.ranks, rank)))
    for place, group in enumerate(groups):
        rule = None if group.is_folder else _common_rule(group, rank, path)
        if rule is not None:
            parts, width = rule
            return _put(groups, place, PathGroup(ranks=add(group.ranks, rank), parts=parts, width=width))
    if len(groups) < GROUPS_MAX:
        return (*groups, PathGroup(ranks=((rank, rank),), parts=(path,)))
    last = groups[-1]
    # A folder is closed by a slash, so that it is its own folder.
    known = last.parts[0] + "/" if last.is_folder else last.parts[0]
    folder = PathGroup(ranks=add(last.ranks, rank), parts=(_common_folder(path, known),), is_folder=True)
    return _put(groups, -1, folder)


def as_rank_paths(groups: tuple[PathGroup, ...]) -> tuple[RankPaths, ...]:
    """For a command; empty when one path is everybody's."""
    if len(groups) < 2 and all(len(group.parts) == 1 for group in groups):
        return ()
    return tuple(RankPaths(ranks=group.ranks, parts=group.parts, width=group.width) for group in groups)


def in_folder_only(groups: tuple[PathGroup, ...]) -> int:
    """Ranks of which only a folder is known."""
    return sum(count(group.ranks) for group in groups if group.is_folder)


def size_of(groups: tuple[PathGroup, ...]) -> int:
    """About how many bytes of a record they take."""
    return sum(60 + sum(len(part) + 4 for part in group.parts) + 16 * len(group.ranks) for group in groups)


def _put(groups: tuple[PathGroup, ...], place: int, group: PathGroup) -> tuple[PathGroup, ...]:
    changed = list(groups)
    changed[place] = group
    return tuple(changed)


def _common_rule(group: PathGroup, rank: int, path: str) -> tuple[tuple[str, ...], int] | None:
    """A rule that gives both the group's only rank and this one their paths."""
    if count(group.ranks) != 1 or len(group.parts) != 1:
        return None
    first = group.ranks[0][0]
    theirs = set(_rules(group.parts[0], first))
    return next((rule for rule in _rules(path, rank) if rule in theirs), None)


def _rules(path: str, rank: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every rule with the rank's number in it that gives this path: the number at all its places, or at one."""
    runs = [run for run in _DIGITS.finditer(path) if int(run.group()) == rank][: RUNS_MAX + 1]
    if not runs or len(runs) > RUNS_MAX:
        return
    widths = {len(run.group()) for run in runs}
    choices = [runs] if len(widths) == 1 and len(runs) > 1 else []
    choices += [[run] for run in reversed(runs)]
    for chosen in choices:
        ends = [0, *(run.end() for run in chosen)]
        starts = [*(run.start() for run in chosen), len(path)]
        parts = tuple(path[end:start] for end, start in zip(ends, starts, strict=True))
        text = chosen[0].group()
        # `12` may be padded to two digits or not at all; `012` says what it is.
        for width in (1, len(text)) if len(text) == len(str(rank)) else (len(text),):
            yield parts, width


def _common_folder(one: str, other: str) -> str:
    """The deepest folder that both lie in; empty when there is none."""
    common = []
    for left, right in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if left != right:
            break
        common.append(left)
    return "/".join(common)

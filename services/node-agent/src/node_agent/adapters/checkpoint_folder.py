"""CheckpointFolder on a real folder: names by pattern, the state of the newest, and which inodes are being written."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from node_agent.adapters.checkpoint_files import LOOK_LIMIT_S, folder_state
from node_agent.adapters.daemon_calls import DaemonCalls
from node_agent.application.checkpoint_file_ports import FolderProblem
from node_agent.domain.checkpoint_arrivals import Entry, Look
from node_agent.domain.checkpoint_pattern import NamePattern, is_being_written

NAMES_MAX = 50_000
"""Names read in one look; more in a folder of checkpoints is a mistake, and is said."""
DEEP_MAX = 16
"""Folders whose files are looked at in each look: the ones that changed last. The others keep the state they had."""

_Shallow = tuple[int, int, int]


@dataclass(slots=True)
class _Seen:
    entries: list[tuple[str, int, int | None, os.stat_result]] = field(default_factory=list)
    writing: set[int] = field(default_factory=set)
    names: int = 0


class WatchedFolder:
    """One folder and the pattern of its names."""

    def __init__(self, root: Path, pattern: NamePattern) -> None:
        self._root = root.absolute()
        self._pattern = pattern
        # One at a time: a second look at a file system that hangs would hang as well.
        self._calls = DaemonCalls(name="checkpoint-folder", limit=1)
        self._states: dict[str, tuple[_Shallow, tuple[int, int, int], bool]] = {}

    @property
    def has_rank(self) -> bool:
        """See the port."""
        return self._pattern.has_rank

    async def look(self) -> Look:
        """See the port."""
        try:
            return await self._calls.run(self._look, limit_s=LOOK_LIMIT_S)
        except TimeoutError as error:
            raise FolderProblem(f"{self._root} does not answer within {LOOK_LIMIT_S:g} s") from error
        except OSError as error:
            raise FolderProblem(f"{self._root}: {error.strerror or error}") from error

    def rank_rule(self, path: str) -> tuple[tuple[str, ...], int]:
        """See the port."""
        relative = Path(path).relative_to(self._root).as_posix()
        before = len(path) - len(relative)
        match = self._pattern.match(relative)
        if match is None or match.rank_span is None:
            return (path,), 1
        first, last = match.rank_span
        number = relative[first:last]
        width = len(number) if number.startswith("0") and len(number) > 1 else 1
        return (path[: before + first], path[before + last :]), width

    def _look(self, stop: Event) -> Look:
        seen = _Seen()
        if not self._root.exists():
            return Look(is_missing=True)
        self._list(self._root, "", 0, seen)
        entries: dict[str, Entry] = {}
        newest = sorted(seen.entries, key=lambda one: one[3].st_mtime_ns, reverse=True)
        states: dict[str, tuple[_Shallow, tuple[int, int, int], bool]] = {}
        deep_left = DEEP_MAX
        for relative, step, rank, found in newest:
            if stop.is_set():
                raise OSError("the look was not finished in time")
            path = str(self._root / relative)
            if path in entries:
                continue
            is_folder = stat.S_ISDIR(found.st_mode)
            try:
                states[path] = self._state(path, found, is_deep=is_folder and deep_left > 0)
            except FileNotFoundError:
                continue  # removed since it was listed
            deep_left -= is_folder
            entries[path] = Entry(path=path, step=step, rank=rank, inode=found.st_ino, state=states[path][1])
        self._states = states
        return Look(entries=tuple(entries.values()), writing=frozenset(seen.writing))

    def _state(self, path: str, found: os.stat_result, *, is_deep: bool) -> tuple[_Shallow, tuple[int, int, int], bool]:
        """What the entry itself says, what its files say, and whether they were ever looked at.

        A folder that changed itself, or is among the newest, is looked into; one that never was is not looked into
        later for no reason, for that alone would look like a change.
        """
        shallow = (found.st_ino, found.st_mtime_ns, found.st_size)
        if not stat.S_ISDIR(found.st_mode):
            return shallow, (1, found.st_size, found.st_mtime_ns), True
        known = self._states.get(path)
        if known is not None and known[0] == shallow and (not known[2] or not is_deep):
            return known
        if is_deep or known is not None:
            return shallow, folder_state(Path(path)), True
        return shallow, (0, 0, found.st_mtime_ns), False

    def _list(self, folder: Path, prefix: str, level: int, seen: _Seen) -> None:
        is_last = level == len(self._pattern.levels) - 1
        with os.scandir(folder) as names:
            for name in names:
                seen.names += 1
                if seen.names > NAMES_MAX:
                    raise OSError(f"more than {NAMES_MAX} names; choose a narrower --checkpoint-pattern or folder")
                if is_being_written(name.name):
                    seen.writing.add(name.inode())
                    continue
                if self._pattern.levels[level].fullmatch(name.name) is None:
                    continue
                relative = f"{prefix}{name.name}"
                try:
                    found = name.stat()
                    if not is_last:
                        if stat.S_ISDIR(found.st_mode):
                            self._list(Path(name.path), f"{relative}/", level + 1, seen)
                        continue
                except FileNotFoundError:
                    continue  # removed since it was listed
                match = self._pattern.match(relative)
                if match is not None and (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
                    seen.entries.append((relative, match.step, match.rank, found))

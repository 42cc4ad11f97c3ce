"""CheckpointFiles on real file systems: stat, listing and bounded reads, in threads that may hang."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from urllib.parse import unquote, urlsplit

from node_agent.adapters.checkpoint_formats import SIDECAR, manifest_gaps, sum_mismatch, torn
from node_agent.adapters.daemon_calls import DaemonCalls
from node_agent.domain.checkpoint_check import CheckLevel, PathFacts, PathKind

LOOK_LIMIT_S = 10.0
"""A file system that does not answer a stat for so long could not be resumed from either."""
SUM_LIMIT_S = 900.0
"""1 TB at 1.2 GB/s, what one core does with SHA instructions."""
CALLS_MAX = 16
FILES_MAX = 20_000
"""Files looked at in one checkpoint; beyond that its size is only a lower bound, which still tells change."""
FORMATS_MAX = 1_024
"""Files whose end is read in one checkpoint."""
DEPTH_MAX = 4
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(slots=True)
class _Tally:
    files: list[tuple[Path, int]] = field(default_factory=list)
    size_bytes: int = 0
    changed_ns: int = 0
    truncated: bool = False


class LocalCheckpointFiles:
    """Looks at paths as the ranks of this node see them."""

    def __init__(self, *, cwd: Path, look_limit_s: float = LOOK_LIMIT_S) -> None:
        self._cwd = cwd
        self._look_limit_s = look_limit_s
        self._calls = DaemonCalls(name="checkpoint-look", limit=CALLS_MAX)

    def is_elsewhere(self, path: str) -> bool:
        """See the port."""
        return _URL.match(path) is not None and urlsplit(path).scheme.lower() != "file"

    async def look(self, path: str, level: CheckLevel, *, pid: int | None) -> PathFacts:
        """See the port."""
        limit_s = SUM_LIMIT_S if level is CheckLevel.CHECKSUM else self._look_limit_s
        try:
            return await self._calls.run(lambda stop: self._facts(path, level, pid, stop), limit_s=limit_s)
        except TimeoutError:
            return PathFacts(kind=PathKind.UNREADABLE, problem=f"no answer within {limit_s:g} s")
        except (OSError, ValueError) as error:
            return PathFacts(kind=PathKind.UNREADABLE, problem=str(error)[:500])

    def _facts(self, told: str, level: CheckLevel, pid: int | None, stop: Event) -> PathFacts:
        if self.is_elsewhere(told):
            return PathFacts(kind=PathKind.UNSEEN)
        path, is_sure = self._resolve(told, pid)
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return PathFacts(kind=PathKind.MISSING if is_sure else PathKind.UNSEEN)
        if stat.S_ISDIR(found.st_mode):
            return _folder_facts(path, found, level, stop)
        if not stat.S_ISREG(found.st_mode):
            return PathFacts(kind=PathKind.UNREADABLE, problem="neither a file nor a folder")
        end = torn(path, found.st_size) if _wants_ends(level) else ""
        mismatch = sum_mismatch(path, stop) if level is CheckLevel.CHECKSUM else ""
        return PathFacts(
            kind=PathKind.FILE,
            files=1,
            size_bytes=found.st_size,
            changed_ns=found.st_mtime_ns,
            empty=() if found.st_size else (path.name,),
            torn=(end,) if end else (),
            mismatched=(mismatch,) if mismatch else (),
        )

    def _resolve(self, told: str, pid: int | None) -> tuple[Path, bool]:
        """The absolute path, and whether it is surely the one that the rank meant."""
        if _URL.match(told):
            told = unquote(urlsplit(told).path)
        path = Path(told)
        if path.is_absolute():
            return path, True
        if pid is not None:
            try:
                return Path(os.readlink(f"/proc/{pid}/cwd")) / path, True
            except OSError:
                # It ended since. Where the agent works is where it began.
                pass
        return self._cwd / path, False


def _wants_ends(level: CheckLevel) -> bool:
    return level in (CheckLevel.SIZE, CheckLevel.CHECKSUM)


def _folder_facts(path: Path, found: os.stat_result, level: CheckLevel, stop: Event) -> PathFacts:
    tally = _Tally(changed_ns=found.st_mtime_ns)
    _walk(path, tally, DEPTH_MAX)
    own = {file.name: size for file, size in tally.files if file.parent == path}
    gaps = manifest_gaps(path, own)
    ends: list[str] = []
    mismatches: list[str] = []
    if _wants_ends(level):
        for file, size in tally.files[:FORMATS_MAX]:
            if stop.is_set():
                raise OSError("the look was not finished in time")
            if end := torn(file, size):
                ends.append(end)
            if level is CheckLevel.CHECKSUM and file.suffix != SIDECAR and (mismatch := sum_mismatch(file, stop)):
                mismatches.append(mismatch)
    return PathFacts(
        kind=PathKind.FOLDER,
        files=len(tally.files),
        size_bytes=tally.size_bytes,
        changed_ns=tally.changed_ns,
        empty=tuple(file.name for file, size in tally.files if size == 0)[:8],
        torn=tuple(ends[:8]),
        manifest=gaps,
        mismatched=tuple(mismatches[:8]),
        truncated=tally.truncated or len(tally.files) > FORMATS_MAX,
    )


def folder_state(path: Path) -> tuple[int, int, int]:
    """Number of files, bytes, newest change: equal for two looks between which nothing was written.

    Raises:
        OSError: it cannot be listed.
    """
    tally = _Tally(changed_ns=path.stat().st_mtime_ns)
    _walk(path, tally, DEPTH_MAX)
    return len(tally.files), tally.size_bytes, tally.changed_ns


def _walk(folder: Path, tally: _Tally, depth: int) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if len(tally.files) >= FILES_MAX:
                tally.truncated = True
                return
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # renamed or removed since it was listed; the next look sees what it is now
            tally.changed_ns = max(tally.changed_ns, found.st_mtime_ns)
            if stat.S_ISDIR(found.st_mode):
                if depth > 1:
                    _walk(Path(entry.path), tally, depth - 1)
                else:
                    tally.truncated = True
            elif stat.S_ISREG(found.st_mode):
                tally.files.append((Path(entry.path), found.st_size))
                tally.size_bytes += found.st_size

"""application.report_rank_faults.EvidenceStore: folders `evidence_<n>` beside the logs of an attempt.

Bounded in count, in size and in time: a job that fails all night must not fill a disk, and a file system that hangs
must not hold a recovery.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from node_agent.adapters.daemon_calls import DaemonCalls

FOLDERS_MAX = 32
"""In one attempt, also over runs of one job id. Ranks are told once each: more means that something repeats."""
FILES_MAX = 128
FILE_BYTES_MAX = 512 * 1024
"""Of a text, from its beginning: a stack dump of 64 ranks takes about 200 KB."""
FOLDER_BYTES_MAX = 8 * 1024 * 1024
TAIL_BYTES_MAX = 64 * 1024
"""Of a log, from its end: about 500 lines."""
SAVE_S_MAX = 2.0
"""A recovery takes less than that; evidence that takes longer is given up."""
SAVES_MAX = 2
"""At a time, those that hang included."""
_CUT = b"\n[cut here: more than is kept]\n"
_PLAIN = re.compile(r"[^A-Za-z0-9._-]")


class EvidenceFolders:
    """Writes evidence in a thread."""

    def __init__(
        self, attempt_dir: Callable[[int], Path], notice: Callable[[str], None], *, save_s_max: float = SAVE_S_MAX
    ) -> None:
        self._attempt_dir = attempt_dir
        self._notice = notice
        self._save_s_max = save_s_max
        self._calls = DaemonCalls(name="evidence", limit=SAVES_MAX)

    async def save(self, topology_version: int, *, texts: Mapping[str, str], tails: Mapping[str, Path]) -> str:
        """See the port."""
        attempt = self._attempt_dir(topology_version)
        try:
            folder = await self._calls.run(
                lambda _given_up: write_evidence(attempt, texts, tails), limit_s=self._save_s_max
            )
            return str(folder)
        except TimeoutError:
            self._notice(f"evidence was not saved within {self._save_s_max:g} s in {attempt}; going on without it")
        except OSError as error:
            self._notice(f"evidence cannot be saved in {attempt}: {error.strerror or error}")
        return ""


def write_evidence(attempt: Path, texts: Mapping[str, str], tails: Mapping[str, Path]) -> Path:
    """Write one new folder.

    Raises:
        OSError: it cannot be written, or there are FOLDERS_MAX of them. What was written before that stays.
    """
    folder = _new_folder(attempt)
    room = FOLDER_BYTES_MAX
    for name, data in _contents(texts, tails):
        if room <= 0:
            break
        kept = data if len(data) <= room else data[:room] + _CUT
        (folder / _PLAIN.sub("_", name)[:100]).write_bytes(kept)
        room -= len(kept)
    return folder


def _contents(texts: Mapping[str, str], tails: Mapping[str, Path]) -> list[tuple[str, bytes]]:
    """What to write: the texts come first when there is too much."""
    found = []
    for name, text in list(texts.items())[:FILES_MAX]:
        data = text.encode(errors="backslashreplace")
        found.append((name, data if len(data) <= FILE_BYTES_MAX else data[:FILE_BYTES_MAX] + _CUT))
    for name, path in list(tails.items())[:FILES_MAX]:
        try:
            found.append((name, _tail(path)))
        except FileNotFoundError:
            continue  # a rank that has not printed yet has said nothing
    return found


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - TAIL_BYTES_MAX))
        return file.read(TAIL_BYTES_MAX)


def _new_folder(attempt: Path) -> Path:
    attempt.mkdir(parents=True, exist_ok=True)
    for number in range(1, FOLDERS_MAX + 1):
        folder = attempt / f"evidence_{number}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise OSError(f"there are {FOLDERS_MAX} folders of evidence already")

"""What the ranks wrote down, held against what must be so: order of steps, results, who was started, who is left."""

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from chaos_schedule import WORLD

from worker_link.process_tree import read_process

SIZE = 16
MODULUS = 2**31 - 1


class Unfailed:
    """The unfailed run, computed without torch, without processes and without Phalanx: the state after each step."""

    def __init__(self) -> None:
        self._states = [[0] * SIZE]

    def after(self, step: int) -> list[int]:
        """State after a step."""
        while len(self._states) <= step:
            n = len(self._states)
            gradients = [sum((i * 31 + n * 7919 + rank * 104_729) % 1000 for rank in range(WORLD)) for i in range(SIZE)]
            before = self._states[-1]
            self._states.append([(w * 31 + g + n) % MODULUS for w, g in zip(before, gradients, strict=True)])
        return self._states[step]


class Ledger:
    """Reads events as they are appended, and refuses the first that must not be."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "events.jsonl"
        self._offset = 0
        self._unfailed = Unfailed()
        self.events: list[dict[str, Any]] = []
        self.begun: dict[int, dict[int, int]] = defaultdict(dict)
        """version → rank → step it started after."""
        self.steps: dict[int, dict[int, int]] = defaultdict(dict)
        """version → rank → its last step."""
        self.lives: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        """version → rank → pid and start time of its process."""
        self.finals: set[int] = set()
        self._met: dict[str, tuple[tuple[int, int], int]] = {}
        self._blows: dict[str, int] = {}

    def look(self) -> None:
        """Read what is new.

        Raises:
            AssertionError: something happened that must not.
        """
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            event = json.loads(line)
            self.events.append(event)
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        rank, version = event["rank"], event["version"]
        life = (event["pid"], event["started"])
        match event["event"]:
            case "begin":
                assert rank not in self.begun[version], f"rank {rank} was started twice in version {version}"
                newer = [known for known in self.begun if known > version and rank in self.begun[known]]
                assert not newer, f"rank {rank} begins version {version} after version {newer}"
                starts = set(self.begun[version].values())
                assert starts <= {event["step"]}, (
                    f"version {version}: rank {rank} starts after {event}, others {starts}"
                )
                self.begun[version][rank], self.lives[version][rank] = event["step"], life
            case "step":
                assert self.lives[version].get(rank) == life, f"a step of another process than began: {event}"
                before = self.steps[version].get(rank, self.begun[version][rank])
                assert event["step"] == before + 1, f"version {version}, rank {rank}: {event['step']} after {before}"
                self.steps[version][rank] = event["step"]
                self._right(event)
            case "met":
                self._met[event["number"]] = (life, version)
            case "blow":
                self._blows[event["number"]] = version
            case "final":
                self._right(event)
                self.finals.add(rank)

    def _right(self, event: dict[str, Any]) -> None:
        wanted = self._unfailed.after(event["step"])
        assert event["state"] == wanted, f"the state is not the unfailed run's: {event}"

    @property
    def version(self) -> int:
        """The newest that a rank began; 0 before the first."""
        return max(self.begun, default=0)

    @property
    def steady(self) -> bool:
        """All ranks did a step and the one after it in the newest generation."""
        version = self.version
        begun, steps = self.begun[version], self.steps[version]
        return len(steps) == WORLD and all(steps[rank] >= begun[rank] + 2 for rank in steps)

    def is_over(self, number: str) -> bool:
        """A blow that a rank found has had its effect: another generation follows the one that it broke."""
        if number in self._blows:
            return self._blows[number] < self.version
        if number not in self._met:
            return False
        life, version = self._met[number]
        # Its rank may have been ended by somebody else before it struck.
        return version < self.version and not lives(*life)

    def outlived(self) -> list[str]:
        """Processes of ranks of older generations, or superseded ones, that are still there, zombies too."""
        current = set(self.lives[self.version].values())
        old = {life for lives in self.lives.values() for life in lives.values()} - current
        found = []
        for pid, started in sorted(old):
            if lives(pid, started):
                row = read_process(pid)
                found.append(f"pid {pid} in state {row.state if row is not None else '?'}")
        return found


def lives(pid: int, started: int) -> bool:
    """Whether this very process is there, as a zombie too.

    Not as a zombie whose agent and nursery were killed: it went to init, or to this process where a test before made it
    a subreaper, and is no more than a number until it is collected.
    """
    row = read_process(pid)
    if row is None or row.start_ticks != started:
        return False
    return row.alive or row.parent_pid not in (1, os.getpid())


def processes_with(entry: str) -> list[int]:
    """All processes, but for this one, that were started with this environment entry."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if not folder.name.isdecimal() or int(folder.name) == os.getpid():
                continue
            if entry.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # ended, or not ours
    return found

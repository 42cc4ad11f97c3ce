"""Reads what the ranks note, and computes a recovery from it."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LOOK_EVERY_S = 0.05
"""Only how soon the driver notices; the figures come from the ranks' own clocks."""
WORLD_SIZE = 4


class NotReached(Exception):
    """A run did not get where it had to within its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Seconds since the fault at which the last of all ranks got there."""

    entered_s: float
    """The training function was entered: processes are there and torch is imported."""
    group_s: float
    """The process group is up: store rendezvous and gloo's connections."""
    first_step_s: float
    """The first step of the new generation is finished: the figure."""


class EventLog:
    """The events of one job, read as they are appended."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / "events.jsonl").open("a+", encoding="utf-8")
        self._file.seek(0)
        self._partial = ""
        self.events: list[dict[str, float | str]] = []

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def look(self) -> None:
        """Read what is new."""
        *lines, self._partial = (self._partial + self._file.read()).split("\n")
        self.events += [json.loads(line) for line in lines]

    def wait(self, condition: Callable[[], bool], what: str, limit_s: float) -> None:
        """Look until the condition holds.

        Raises:
            NotReached: the limit passed.
        """
        end_s = time.monotonic() + limit_s
        while True:
            self.look()
            if condition():
                return
            if time.monotonic() > end_s:
                raise NotReached(f"{what}: not within {limit_s:g} s")
            time.sleep(LOOK_EVERY_S)

    async def until(self, condition: Callable[[], bool], what: str, limit_s: float) -> None:
        """As `wait`, in the event loop: whoever cancels it does not wait for the limit.

        Raises:
            NotReached: the limit passed.
        """
        end_s = time.monotonic() + limit_s
        while True:
            self.look()
            if condition():
                return
            if time.monotonic() > end_s:
                raise NotReached(f"{what}: not within {limit_s:g} s")
            await asyncio.sleep(LOOK_EVERY_S)

    def all_did(self, steps: int, since_s: float) -> bool:
        """Whether every rank finished so many steps after a moment."""
        counts = Counter(e["rank"] for e in self.events if e["event"] == "step" and float(e["at_s"]) > since_s)
        return len(counts) == WORLD_SIZE and min(counts.values()) >= steps

    def raised_after(self, since_s: float) -> float | None:
        """When a rank raised the exception that it was asked for."""
        times = (float(e["at_s"]) for e in self.events if e["event"] == "raised")
        return next((at_s for at_s in times if at_s > since_s), None)

    def all_reached(self, step: int, since_s: float) -> bool:
        """Whether every rank finished this step, or a later one, after a moment."""
        ranks = {e["rank"] for e in self.events if e["event"] == "step" and e["step"] >= step and e["at_s"] > since_s}
        return len(ranks) == WORLD_SIZE

    def newest_pid(self, rank: int) -> int:
        """The process of a rank that stepped last."""
        return next(int(e["pid"]) for e in reversed(self.events) if e["event"] == "step" and e["rank"] == rank)

    def recovery(self, fault_s: float) -> Recovery | None:
        """From the fault to the first step of a generation that began after it; None while a rank is missing."""
        first: dict[float | str, dict[str, float | str]] = {}
        for event in self.events:
            if event["event"] == "step" and event["begun_s"] > fault_s:
                first.setdefault(event["rank"], event)
        if len(first) < WORLD_SIZE:
            return None
        pids = {event["pid"] for event in first.values()}

        def last_s(name: str) -> float:
            return max(float(e["at_s"]) for e in self.events if e["event"] == name and e["pid"] in pids) - fault_s

        return Recovery(
            entered_s=last_s("entered"),
            group_s=last_s("group"),
            first_step_s=max(float(event["at_s"]) for event in first.values()) - fault_s,
        )

"""What the leader of the planners holds of one job: the record, and the events that wait to be decided."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from recovery_planner.domain.gang import Gang
from recovery_planner.domain.step import Event


@dataclass(slots=True, kw_only=True)
class Request:
    """One event and the handler that waits for it."""

    event: Event
    cause_id: str
    done: asyncio.Future[None]

    def resolve(self) -> None:
        """It is done."""
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        """It could not be done."""
        if not self.done.done():
            self.done.set_exception(error)


@dataclass(slots=True, kw_only=True)
class Desk:
    """What the leader holds of one job. `gang` may be ahead of the store (`dirty`)."""

    job_id: str
    gang: Gang | None = None
    revision: int | None = None
    loaded: bool = False
    dirty: bool = False
    doubtful: bool = False
    """An event did not fit the copy, which may be old."""
    unsure: bool = False
    """The store did not answer: what it holds has to be read, also when no event comes again."""
    losses: int = 0
    queue: deque[Request] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """The store knows better."""
        self.gang, self.revision, self.loaded, self.dirty, self.doubtful = None, None, False, False, False

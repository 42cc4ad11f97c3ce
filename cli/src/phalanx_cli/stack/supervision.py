"""Keeps the processes of a stack alive: who ends without being asked to is started again, sooner or later.

Ends are waited for (pidfd), not polled. Restarts have no number after which we give up: the wait between them is capped
instead, so that a stack left alone over night heals once the cause is gone, and a broken service costs one start in
five seconds.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.member import StackMember

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 5.0

STABLE_AFTER_S = 30.0
"""A process that lived this long was well: its next end starts with the shortest wait again."""

_log = logging.getLogger("phalanx.stack")


def next_backoff_s(previous_s: float | None, *, lived_s: float) -> float:
    """Return how long to wait before the next start."""
    if previous_s is None or lived_s >= STABLE_AFTER_S:
        return BACKOFF_FIRST_S
    return min(2 * previous_s, BACKOFF_MAX_S)


class Supervision:
    """Watches members, one task each. `on_change` is called after every restart, with the new pids in place."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._watches: dict[str, asyncio.Task[None]] = {}

    def watch(self, member: StackMember) -> None:
        """Watch a member that has been started."""
        assert member.name not in self._watches, f"{member.name} is watched already"
        self._watches[member.name] = asyncio.create_task(self._keep_alive(member), name=f"watch {member.name}")

    async def restart(self, member: StackMember) -> None:
        """Stop a member in order, start it again and go on watching it, also when the start failed."""
        await self._unwatch(member.name)
        try:
            await member.stop_async()
            await member.start_async()
            self._on_change()
        finally:
            self.watch(member)

    async def close(self) -> None:
        """Watch nothing any more; the members run on."""
        for name in tuple(self._watches):
            await self._unwatch(name)

    async def _unwatch(self, name: str) -> None:
        watch = self._watches.pop(name, None)
        if watch is None:
            return
        watch.cancel()
        # `wait` and not `await watch`: our own cancellation must not be taken for the watch's.
        await asyncio.wait([watch])

    async def _keep_alive(self, member: StackMember) -> None:
        backoff_s: float | None = None
        while True:
            assert member.process is not None, "watched after its start"
            watched_since = time.monotonic()
            await member.process.wait()
            backoff_s = next_backoff_s(backoff_s, lived_s=time.monotonic() - watched_since)
            _log.warning(
                "process_ended name=%s how=%r restart_in_s=%.1f", member.name, member.process.ending, backoff_s
            )
            await asyncio.sleep(backoff_s)
            try:
                await member.start_async()
                self._on_change()
            except StackError as error:
                _log.error("process_restart_failed name=%s reason=%s", member.name, error)
            else:
                _log.warning("process_restarted name=%s pid=%d", member.name, member.process.pid)

"""Calls that may never return (a file system that hangs), each in a thread of its own that nobody has to wait for.

The event loop's executor joins its threads when the program ends, and one that hangs in NFS would hold the agent.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from service_kit.logging import get_logger

log = get_logger(__name__)
T = TypeVar("T")


class DaemonCalls:
    """At most `limit` calls at a time, those that hang included."""

    def __init__(self, *, name: str, limit: int) -> None:
        self._name = name
        self._slots = asyncio.Semaphore(limit)

    @property
    def exhausted(self) -> bool:
        """As many calls as are allowed have not come back."""
        return self._slots.locked()

    async def run(self, call: Callable[[threading.Event], T], *, limit_s: float) -> T:
        """The call's result. It is handed an event that is set when nobody waits for it any more.

        Raises:
            TimeoutError: no result, or no free thread, in time.
            OSError: as the call; also when no thread can be started.
        """
        loop = asyncio.get_running_loop()
        given_up = threading.Event()
        async with asyncio.timeout(limit_s):
            await self._slots.acquire()
            result: asyncio.Future[T] = loop.create_future()

            def settle(value: T | None, error: BaseException | None) -> None:
                self._slots.release()
                if result.done():
                    return
                if error is not None:
                    result.set_exception(error)
                else:
                    result.set_result(value)  # type: ignore[arg-type]  # the call returned it

            def work() -> None:
                value, problem = None, None
                try:
                    value = call(given_up)
                except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                    problem = error
                try:
                    loop.call_soon_threadsafe(settle, value, problem)
                except RuntimeError:
                    log.debug("answer_after_the_end", name=self._name)

            try:
                threading.Thread(target=work, name=self._name, daemon=True).start()
            except RuntimeError as error:
                self._slots.release()
                raise OSError(f"no thread for {self._name}: {error}") from error
            try:
                return await result
            finally:
                given_up.set()

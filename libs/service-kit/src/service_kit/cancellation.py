"""Cancellation that is not lost, and waits that an end cuts short.

`asyncio.wait_for` of Python 3.11 returns the result, and drops the cancellation, when both come in the same turn of the
loop (python/cpython#86296); nats-py's requests are built on it. A task that is to end would go on for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

CANCEL_AGAIN_S = 0.5
CANCEL_LIMIT_S = 5.0


async def cancellable(work: Awaitable[T]) -> T:
    """The result of `work`, or the cancellation that it dropped."""
    task = asyncio.current_task()
    assert task is not None, "awaited in a task"
    before = task.cancelling()
    result = await work
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Cancel and wait; again where a cancellation was dropped. Returns what did not end within CANCEL_LIMIT_S."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + CANCEL_LIMIT_S
    left = {task for task in tasks if not task.done()}
    while left and loop.time() < deadline_s:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
    return left


async def stopped_within(stopping: asyncio.Event, wait_s: float) -> bool:
    """Wait for so long; True, at once, when it is time to stop."""
    try:
        async with asyncio.timeout(wait_s):
            await stopping.wait()
    except TimeoutError:
        return False
    return True

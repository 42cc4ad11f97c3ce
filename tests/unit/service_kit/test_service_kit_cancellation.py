"""A cancellation that comes together with an answer is not lost, and a task that dropped one ends all the same."""

import asyncio

import pytest

from service_kit import cancellation
from service_kit.cancellation import cancel_all, cancellable

pytestmark = pytest.mark.asyncio


async def test_a_cancellation_in_the_same_turn_as_the_answer_ends_the_task() -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(cancellable(asyncio.wait_for(answer, 5)))
    await asyncio.sleep(0.01)
    answer.set_result("here")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_result_comes_through_also_inside_a_limit_that_did_not_pass() -> None:
    async def ask() -> str:
        async with asyncio.timeout(5):
            return await cancellable(asyncio.sleep(0, "here"))

    assert await ask() == "here"


async def test_a_task_that_dropped_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "CANCEL_AGAIN_S", 0.01)
    dropped = 0

    async def stubborn(times: int) -> None:
        nonlocal dropped
        for _ in range(times):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                dropped += 1
        await asyncio.sleep(60)

    tasks = [asyncio.create_task(stubborn(2)), asyncio.create_task(stubborn(0))]
    await asyncio.sleep(0)
    assert await cancel_all(tasks) == set()
    assert dropped == 2
    assert all(task.cancelled() for task in tasks)


async def test_a_task_that_never_ends_is_named_and_not_waited_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "CANCEL_AGAIN_S", 0.01)
    monkeypatch.setattr(cancellation, "CANCEL_LIMIT_S", 0.05)
    end = asyncio.Event()

    async def endless() -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(endless())
    await asyncio.sleep(0)
    assert await cancel_all([task]) == {task}
    end.set()
    await task

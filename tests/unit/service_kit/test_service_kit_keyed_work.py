"""Order within a key, freedom between keys."""

import asyncio

import pytest

from service_kit.keyed_work import KeyedWork

pytestmark = pytest.mark.asyncio


async def test_items_of_a_key_are_handled_in_order_and_one_at_a_time() -> None:
    seen: list[int] = []
    running = 0

    async def handle(item: int) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0.001 if item % 2 else 0)
        seen.append(item)
        running -= 1

    work = KeyedWork(handle)
    for item in range(20):
        work.add("key", item)
    async with asyncio.timeout(2):
        while work.size:  # noqa: ASYNC110 - the size is what is tested
            await asyncio.sleep(0)
    assert seen == list(range(20))


async def test_a_blocked_key_does_not_hold_up_another() -> None:
    release, other = asyncio.Event(), asyncio.Event()

    async def handle(item: str) -> None:
        if item == "slow":
            await release.wait()
        else:
            other.set()

    work = KeyedWork(handle)
    work.add("a", "slow")
    work.add("b", "quick")
    await asyncio.wait_for(other.wait(), 1)
    release.set()
    assert await work.stop(1) == []


async def test_stop_finishes_what_is_in_hand_and_returns_the_rest() -> None:
    started, release = asyncio.Event(), asyncio.Event()
    done: list[int] = []

    async def handle(item: int) -> None:
        started.set()
        await release.wait()
        done.append(item)

    work = KeyedWork(handle)
    for item in range(3):
        work.add("key", item)
    await started.wait()
    asyncio.get_running_loop().call_later(0.02, release.set)
    assert await work.stop(1) == [1, 2]
    assert done == [0]
    assert work.size == 0


async def test_stop_cancels_what_does_not_end() -> None:
    cancelled = asyncio.Event()

    async def handle(_: int) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    work = KeyedWork(handle)
    work.add("key", 1)
    await asyncio.sleep(0)
    await asyncio.wait_for(work.stop(0.01), 1)
    assert cancelled.is_set()
    assert work.size == 0


async def test_a_key_is_usable_again_after_it_ran_empty() -> None:
    seen: list[int] = []

    async def handle(item: int) -> None:
        seen.append(item)

    work = KeyedWork(handle)
    for item in range(3):
        work.add("key", item)
        await asyncio.sleep(0.001)
    assert seen == [0, 1, 2]

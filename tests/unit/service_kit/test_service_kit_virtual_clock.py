"""Time that only a test moves."""

import asyncio
from datetime import timedelta

import pytest

from service_kit.testing.virtual_clock import EPOCH, Deadlock, LoopClock, VirtualClock, run_virtual


@pytest.mark.asyncio
async def test_sleepers_wake_in_order_at_their_own_moment() -> None:
    clock = VirtualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, duration_s: float) -> None:
        await clock.sleep(duration_s)
        woken.append((name, clock.monotonic_s()))
        if name == "a":
            await clock.sleep(1)
            woken.append(("a again", clock.monotonic_s()))

    tasks = [asyncio.create_task(sleeper(name, s)) for name, s in (("b", 3), ("a", 1), ("late", 10))]
    await clock.advance(5)
    assert woken == [("a", 1), ("a again", 2), ("b", 3)]
    assert clock.now() == EPOCH + timedelta(seconds=5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await clock.advance(10)
    assert len(woken) == 3


@pytest.mark.asyncio
async def test_a_task_that_spins_is_found() -> None:
    clock = VirtualClock()

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - spinning is what is tested
            await asyncio.sleep(0)

    task = asyncio.create_task(spin())
    with pytest.raises(RuntimeError, match="something spins"):
        await clock.run_until_idle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_virtual_day_takes_no_time_and_time_outs_fire_in_it() -> None:
    async def main() -> tuple[float, str]:
        clock = LoopClock()
        await clock.sleep(86_400)
        try:
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        except TimeoutError:
            return clock.monotonic_s(), clock.now().isoformat()
        raise AssertionError("the time-out did not fire")

    assert run_virtual(main()) == (86_460.0, "2030-01-02T00:01:00+00:00")


def test_a_program_in_which_everybody_waits_for_ever_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_virtual(main())

"""Deadlines are handled when they are due, in their order, and moved or dropped before that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from service_kit.deadlines import Deadlines
from service_kit.testing.virtual_clock import VirtualClock


@asynccontextmanager
async def running(clock: VirtualClock, deadlines: Deadlines) -> AsyncIterator[list[tuple[str, float]]]:
    handled: list[tuple[str, float]] = []

    async def handle(key: str) -> None:
        handled.append((key, clock.monotonic_s()))

    task = asyncio.create_task(deadlines.run(handle))
    yield handled
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.asyncio
async def test_each_is_handled_at_its_moment_whatever_the_order_of_setting() -> None:
    clock = VirtualClock()
    deadlines = Deadlines(clock)
    async with running(clock, deadlines) as handled:
        deadlines.set("late", clock.now() + timedelta(seconds=3))
        await clock.advance(1.0)
        deadlines.set("early", clock.now() + timedelta(seconds=0.5))
        await clock.advance(5.0)
        assert handled == [("early", 1.5), ("late", 3.0)]
        assert len(deadlines) == 0


@pytest.mark.asyncio
async def test_setting_again_moves_it_and_none_drops_it() -> None:
    clock = VirtualClock()
    deadlines = Deadlines(clock)
    async with running(clock, deadlines) as handled:
        deadlines.set("moved", clock.now() + timedelta(seconds=1))
        deadlines.set("dropped", clock.now() + timedelta(seconds=1))
        deadlines.set("moved", clock.now() + timedelta(seconds=2))
        deadlines.set("dropped", None)
        await clock.advance(1.5)
        assert handled == []
        await clock.advance(1.0)
        assert handled == [("moved", 2.0)]


@pytest.mark.asyncio
async def test_what_is_past_is_handled_at_once() -> None:
    clock = VirtualClock()
    deadlines = Deadlines(clock)
    deadlines.set("past", clock.now() - timedelta(seconds=9))
    async with running(clock, deadlines) as handled:
        await clock.advance(0)
        assert handled == [("past", 0.0)]


@pytest.mark.asyncio
async def test_a_key_may_be_set_again_by_its_handler() -> None:
    clock = VirtualClock()
    deadlines = Deadlines(clock)
    turns: list[float] = []

    async def handle(key: str) -> None:
        turns.append(clock.monotonic_s())
        if len(turns) < 3:
            deadlines.set(key, clock.now() + timedelta(seconds=1))

    task = asyncio.create_task(deadlines.run(handle))
    deadlines.set("again", clock.now())
    await clock.advance(10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert turns == [0.0, 1.0, 2.0]

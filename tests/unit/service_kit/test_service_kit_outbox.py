"""Events survive a dead bus and a killed process, leave in order, and cost bounded room."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from fault_contracts.envelope import Envelope
from service_kit import outbox as outbox_module
from service_kit.errors import BusUnavailable, PermanentError
from service_kit.outbox import Outbox
from service_kit.testing.messages import a_step

pytestmark = pytest.mark.asyncio


class FakeBus:
    """Publishes into a list; away or refusing on demand."""

    def __init__(self) -> None:
        self.published: list[Envelope[Any]] = []
        self.away = False
        self.refused: set[int] = set()
        self.delay_s = 0.0

    async def publish(self, envelope: Envelope[Any], *, epoch: int | None = None) -> int:
        await asyncio.sleep(self.delay_s)
        if self.away:
            raise BusUnavailable("away")
        if envelope.data.step in self.refused:
            raise PermanentError("refused")
        self.published.append(envelope)
        return len(self.published)

    @property
    def steps(self) -> list[int]:
        return [envelope.data.step for envelope in self.published]


@pytest.fixture(autouse=True)
def _quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "BACKOFF_S", (0.01,))


def running(outbox: Outbox, bus: FakeBus) -> asyncio.Task[None]:
    return asyncio.create_task(outbox.run(bus))  # type: ignore[arg-type]


async def end(task: asyncio.Task[None], outbox: Outbox) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await outbox.close()


def rows(path: Path) -> list[tuple[int, str | None]]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        return list(database.execute("SELECT urgent, refused FROM events ORDER BY place"))


async def test_events_leave_in_the_order_of_the_calls_even_when_nobody_awaits_them_one_by_one(tmp_path: Path) -> None:
    outbox, bus = Outbox(tmp_path / "o.db"), FakeBus()
    task = running(outbox, bus)
    await asyncio.gather(*(outbox.put(a_step(n), urgent=n % 7 == 0) for n in range(100)))
    assert await outbox.drain(5) == 0
    assert bus.steps == list(range(100))
    await end(task, outbox)
    assert rows(tmp_path / "o.db") == []


async def test_an_urgent_event_is_on_the_bus_before_the_disk_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox, bus = Outbox(tmp_path / "o.db"), FakeBus()
    monkeypatch.setattr(outbox._store, "add", lambda event: None)
    task = running(outbox, bus)
    await asyncio.sleep(0)
    await asyncio.wait_for(outbox.put(a_step(1), urgent=True), 1)
    assert bus.steps == [1]
    await end(task, outbox)


async def test_a_dead_bus_keeps_events_and_gets_them_in_order_when_it_is_back(tmp_path: Path) -> None:
    outbox, bus = Outbox(tmp_path / "o.db"), FakeBus()
    bus.away = True
    task = running(outbox, bus)
    async with asyncio.timeout(2):
        for number in range(10):
            await outbox.put(a_step(number))
    assert (bus.steps, len(outbox)) == ([], 10)
    bus.away = False
    assert await outbox.drain(5) == 0
    assert bus.steps == list(range(10))
    await end(task, outbox)


async def test_the_next_life_sends_what_this_one_left_before_its_own(tmp_path: Path) -> None:
    first, bus = Outbox(tmp_path / "o.db"), FakeBus()
    for number in range(3):
        await first.put(a_step(number))
    await first.close()
    second = Outbox(tmp_path / "o.db")
    task = running(second, bus)
    await second.put(a_step(3))
    assert await second.drain(5) == 0
    assert bus.steps == [0, 1, 2, 3]
    await end(task, second)


async def test_what_was_put_survives_kill_9(tmp_path: Path) -> None:
    code = textwrap.dedent("""
        import asyncio, sys
        from pathlib import Path
        from service_kit.outbox import Outbox
        from service_kit.testing.messages import a_step

        async def main():
            outbox = Outbox(Path(sys.argv[1]))
            await asyncio.gather(*(outbox.put(a_step(n), urgent=n == 4) for n in range(5)))
            print("durable", flush=True)
            asyncio.create_task(outbox.put(a_step(5)))
            await asyncio.sleep(60)

        asyncio.run(main())
    """)
    path = tmp_path / "o.db"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(path), stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"durable\n"
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    outbox, bus = Outbox(path), FakeBus()
    task = running(outbox, bus)
    assert await outbox.drain(5) == 0
    assert bus.steps[:5] == [0, 1, 2, 3, 4]
    await end(task, outbox)


async def test_a_full_outbox_gives_up_the_oldest_but_never_an_urgent_one(tmp_path: Path) -> None:
    outbox, bus = Outbox(tmp_path / "o.db", events_max=5), FakeBus()
    for number in range(10):
        await outbox.put(a_step(number), urgent=number in (0, 3))
    assert (len(outbox), outbox.dropped) == (5, 5)
    task = running(outbox, bus)
    assert await outbox.drain(5) == 0
    assert bus.steps == [0, 3, 7, 8, 9]
    for number in range(20, 30):
        await outbox.put(a_step(number), urgent=True)
    assert outbox.dropped == 5
    await end(task, outbox)


async def test_a_put_that_found_no_room_does_not_wait_for_ever(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o.db", events_max=1)
    await outbox.put(a_step(1), urgent=True)
    await asyncio.wait_for(outbox.put(a_step(2)), 1)
    assert (len(outbox), outbox.dropped) == (1, 1)
    await outbox.close()


async def test_an_event_that_the_bus_refuses_for_good_is_kept_in_the_file_and_the_next_goes_on(tmp_path: Path) -> None:
    outbox, bus = Outbox(tmp_path / "o.db"), FakeBus()
    bus.refused = {1}
    task = running(outbox, bus)
    for number in range(3):
        await outbox.put(a_step(number))
    assert await outbox.drain(5) == 0
    assert bus.steps == [0, 2]
    await end(task, outbox)
    assert rows(tmp_path / "o.db") == [(0, "refused")]
    again = Outbox(tmp_path / "o.db")
    assert len(again) == 0
    await again.put(a_step(9))
    await again.close()
    assert len(rows(tmp_path / "o.db")) == 2


async def test_two_processes_on_one_file_are_refused(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o.db")
    with pytest.raises(OSError, match="cannot open the outbox"):
        Outbox(tmp_path / "o.db")
    await outbox.close()


async def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "o.db"
    path.write_bytes(b"this is no database, and long enough to be looked at as one" * 50)
    outbox, bus = Outbox(path), FakeBus()
    task = running(outbox, bus)
    await outbox.put(a_step(1))
    assert await outbox.drain(5) == 0
    await end(task, outbox)
    assert (tmp_path / "o.db.damaged").exists()


async def test_a_disk_that_refuses_costs_nothing_while_the_bus_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox, bus = Outbox(tmp_path / "o.db"), FakeBus()

    def full(*args: object, **more: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    commit = outbox._store._commit
    monkeypatch.setattr(outbox._store, "_commit", full)
    waiting = asyncio.create_task(outbox.put(a_step(1), urgent=True))
    await asyncio.sleep(0.05)
    assert not waiting.done(), "neither the disk nor the bus has it"
    task = running(outbox, bus)
    await asyncio.wait_for(waiting, 1)
    assert bus.steps == [1]
    monkeypatch.setattr(outbox._store, "_commit", commit)
    await outbox.put(a_step(2))
    assert await outbox.drain(5) == 0
    await end(task, outbox)
    assert rows(tmp_path / "o.db") == []

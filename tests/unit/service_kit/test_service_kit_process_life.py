"""A process life ends at the chosen touch of the world, and nothing behind it happens."""

import asyncio
from random import Random

from service_kit.errors import BusUnavailable
from service_kit.testing.memory_broker import MemoryBroker
from service_kit.testing.memory_key_value import MemoryKeyValue
from service_kit.testing.process_life import ProcessLife, StoreTrouble
from service_kit.testing.virtual_clock import LoopClock, run_virtual


async def _writes_until_dead(die_after: int) -> tuple[int, bool]:
    life = ProcessLife(MemoryBroker(LoopClock()), name="p", random=Random(1))
    kept = MemoryKeyValue()
    bucket = life.bucket(kept)
    life.die_after(die_after)

    async def work() -> None:
        for number in range(5):
            await bucket.create(f"k{number}", b"")

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    done = len(kept.entries())
    life.bury()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return done, life.dead


def test_it_dies_before_or_after_any_effect() -> None:
    """Two touches a write: the odd ones are before it, the even ones between it and its answer."""
    written = [run_virtual(_writes_until_dead(touches))[0] for touches in range(1, 7)]
    assert written == [0, 1, 1, 2, 2, 3]


def test_a_process_that_is_cut_off_reaches_no_bucket() -> None:
    async def main() -> str:
        broker = MemoryBroker(LoopClock())
        life = ProcessLife(broker, name="p", random=Random(1))
        broker.partitioned.add("p")
        try:
            await life.bucket(MemoryKeyValue()).get("k")
        except BusUnavailable as error:
            return str(error)
        return ""

    assert run_virtual(main()) == "the store: no connection"


def test_a_write_whose_acknowledgement_is_lost_was_written() -> None:
    async def main() -> tuple[bool, int]:
        kept = MemoryKeyValue()
        life = ProcessLife(MemoryBroker(LoopClock()), name="p", random=Random(1), trouble=StoreTrouble(ack_lost=1.0))
        try:
            await life.bucket(kept).create("k", b"v")
        except BusUnavailable:
            return True, len(kept.entries())
        return False, 0

    assert run_virtual(main()) == (True, 1)

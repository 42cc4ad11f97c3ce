"""Values over the limit of one message come back whole, whoever is killed in between."""

import asyncio
import json
import random

import pytest

from service_kit.errors import BusUnavailable, CompareAndSetLost, ContractViolation, TransientError
from service_kit.large_values import LargeValues, ValueTooLarge
from service_kit.ports import Entry
from service_kit.testing.memory_key_value import MemoryKeyValue

PLAIN, HEAD = 100, 200


def noise(size: int, seed: int = 0) -> bytes:
    """Does not get smaller when deflated."""
    return random.Random(seed).randbytes(size)


def over(bucket: MemoryKeyValue) -> LargeValues:
    return LargeValues(bucket, plain_bytes_max=PLAIN, head_bytes_max=HEAD)


class DyingKeyValue(MemoryKeyValue):
    """Ends the process of the writer after so many calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls_left = 1_000_000

    def _maybe_fail(self) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise asyncio.CancelledError
        super()._maybe_fail()


@pytest.mark.parametrize("size", [0, PLAIN, PLAIN + 1, HEAD * 5])
@pytest.mark.asyncio
async def test_every_size_comes_back(size: int) -> None:
    bucket = MemoryKeyValue()
    for value in (noise(size), b"a" * size):
        await over(bucket).delete("job")
        revision = await over(bucket).create("job", value)
        assert await over(bucket).get("job") == Entry(value=value, revision=revision)
        assert await over(bucket).keys() == ["job"]
        assert all(len(entry.value) <= HEAD for entry in bucket.entries().values())


@pytest.mark.asyncio
async def test_a_small_value_is_readable_as_it_lies() -> None:
    bucket = MemoryKeyValue()
    await over(bucket).create("job", b'{"v":1}')
    assert bucket.entries()["job"].value == b'{"v":1}'


@pytest.mark.asyncio
async def test_parts_of_the_value_before_go_with_the_next_one() -> None:
    bucket = MemoryKeyValue()
    values = over(bucket)
    revision = await values.create("job", noise(1_000))
    assert len(bucket.entries()) == 7
    revision = await values.update("job", noise(500, 1), revision)
    assert len(bucket.entries()) == 4
    await values.update("job", b"small", revision)
    assert list(bucket.entries()) == ["job"]


@pytest.mark.asyncio
async def test_a_writer_that_lost_leaves_the_winner_whole() -> None:
    bucket = MemoryKeyValue()
    one, two = over(bucket), over(bucket)
    revision = await one.create("job", noise(500))
    await two.get("job")
    won = await two.update("job", noise(700, 1), revision)
    with pytest.raises(CompareAndSetLost):
        await one.update("job", noise(900, 2), revision)
    assert await over(bucket).get("job") == Entry(value=noise(700, 1), revision=won)
    await two.delete("job")
    assert not bucket.entries(), "what the loser left goes with the value"


@pytest.mark.asyncio
async def test_two_writers_of_the_same_value_do_not_take_each_others_parts() -> None:
    bucket = MemoryKeyValue()
    one, two = over(bucket), over(bucket)
    revision = await one.create("job", noise(500))
    await two.get("job")
    await two.update("job", noise(700, 1), revision)
    with pytest.raises(CompareAndSetLost):
        await one.update("job", noise(700, 1), revision)
    found = await over(bucket).get("job")
    assert found is not None
    assert found.value == noise(700, 1)


@pytest.mark.asyncio
async def test_killed_at_any_call_the_old_or_the_new_value_is_there() -> None:
    old, new = noise(700), noise(900, 1)
    seen = set()
    for calls in range(40):
        bucket = DyingKeyValue()
        writer = over(bucket)
        revision = await writer.create("job", old)
        bucket.calls_left = calls
        try:
            await writer.update("job", new, revision)
        except asyncio.CancelledError:
            pass  # the death that was asked for
        bucket.calls_left = 1_000_000
        found = await over(bucket).get("job")
        assert found is not None
        assert found.value in (old, new)
        seen.add(found.value)
        if found.value == old:
            await over(bucket).update("job", new, found.revision)
            assert (await over(bucket).get("job") or found).value == new
    assert seen == {old, new}


@pytest.mark.asyncio
async def test_a_write_without_acknowledgement_may_be_repeated() -> None:
    bucket = MemoryKeyValue()
    writer = over(bucket)
    revision = await writer.create("job", noise(700))
    bucket.fail_next = 2
    with pytest.raises(BusUnavailable):
        await writer.update("job", noise(900, 1), revision)
    await writer.update("job", noise(900, 1), revision)
    found = await over(bucket).get("job")
    assert found is not None
    assert found.value == noise(900, 1)


@pytest.mark.asyncio
async def test_a_reader_reads_again_when_it_meets_a_writer() -> None:
    bucket = MemoryKeyValue()
    writer = over(bucket)
    revision = await writer.create("job", noise(700))
    reader = over(bucket)
    heads = [bucket.entries()["job"]]
    await writer.update("job", noise(900, 1), revision)
    get = bucket.get

    async def late(key: str) -> Entry | None:
        return heads.pop() if key == "job" and heads else await get(key)

    bucket.get = late  # type: ignore[method-assign]
    found = await reader.get("job")
    assert found is not None
    assert found.value == noise(900, 1)


@pytest.mark.asyncio
async def test_damage_is_said() -> None:
    bucket = MemoryKeyValue()
    await over(bucket).create("parts", noise(700))
    await bucket.delete(next(key for key in bucket.entries() if key != "parts"))
    with pytest.raises(ContractViolation, match="1 of 4 parts are missing"):
        await over(bucket).get("parts")
    for raw, words in [
        (b'{"form":"zlib"}\nnonsense', "damaged"),
        (b'{"form":"zlib"}\n\x78\x01', "cut off"),
        (b'{"form": "parts"', "damaged"),
        (json.dumps({"form": "parts", "name": "x", "count": 0}).encode(), "0 parts"),
    ]:
        await bucket.delete("raw")
        await bucket.create("raw", raw)
        with pytest.raises(ContractViolation, match=words):
            await over(bucket).get("raw")


@pytest.mark.asyncio
async def test_there_is_a_limit() -> None:
    with pytest.raises(ValueTooLarge, match="parts are the limit"):
        await over(MemoryKeyValue()).create("job", noise(HEAD * 65))


@pytest.mark.asyncio
async def test_a_value_that_never_rests_is_not_read_for_ever() -> None:
    bucket = MemoryKeyValue()
    revision = await over(bucket).create("job", noise(700))
    stale = bucket.entries()["job"]
    await over(bucket).update("job", b"small", revision)
    for key in [key for key in bucket.entries() if key != "job"]:
        await bucket.delete(key)
    reads = iter(range(1_000))

    async def moving(key: str) -> Entry | None:
        return Entry(value=stale.value, revision=next(reads)) if key == "job" else None

    bucket.get = moving  # type: ignore[method-assign]
    with pytest.raises(TransientError, match="written anew 8 times"):
        await over(bucket).get("job")

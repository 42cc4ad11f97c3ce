"""What every KeyValue promises, checked against the fake and against a real nats-server."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fault_contracts.registry import Bucket
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.errors import CompareAndSetLost
from service_kit.jetstream.connection import connect
from service_kit.jetstream.key_value import JetStreamKeyValue
from service_kit.jetstream.streams import ensure_streams
from service_kit.large_values import LargeValues
from service_kit.ports import Entry, KeyValue
from service_kit.settings import BusSettings
from service_kit.testing.memory_key_value import MemoryKeyValue

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture(params=["fake", "real"])
async def store(request: pytest.FixtureRequest, unique_name: str) -> AsyncIterator[KeyValue]:
    if request.param == "fake":
        yield MemoryKeyValue()
        return
    server: NatsServer = request.getfixturevalue("nats_server")
    settings = BusSettings(nats_url=server.url, cluster=unique_name, stream_bytes_max=64 << 20)
    connection = await connect(settings, name="suite")
    await ensure_streams(connection, settings)
    yield JetStreamKeyValue(connection, Bucket.GANGS, cluster=unique_name)
    await connection.close()


async def test_what_was_written_is_read_with_its_revision(store: KeyValue) -> None:
    assert await store.get("job.1/A") is None
    revision = await store.create("job.1/A", b"one")
    assert await store.get("job.1/A") == Entry(value=b"one", revision=revision)
    assert await store.get("job.1/a") is None


async def test_create_loses_against_an_existing_record(store: KeyValue) -> None:
    await store.create("job", b"one")
    with pytest.raises(CompareAndSetLost):
        await store.create("job", b"two")
    entry = await store.get("job")
    assert entry is not None
    assert entry.value == b"one"


async def test_update_wins_on_the_newest_revision_only(store: KeyValue) -> None:
    first = await store.create("job", b"one")
    second = await store.update("job", b"two", first)
    with pytest.raises(CompareAndSetLost):
        await store.update("job", b"late", first)
    assert second > first
    assert await store.get("job") == Entry(value=b"two", revision=second)


async def test_of_many_writers_exactly_one_wins(store: KeyValue) -> None:
    revision = await store.create("job", b"0")
    results = await asyncio.gather(
        *(store.update("job", b"%d" % number, revision) for number in range(20)), return_exceptions=True
    )
    assert sum(isinstance(result, int) for result in results) == 1
    assert sum(isinstance(result, CompareAndSetLost) for result in results) == 19


async def test_a_deleted_key_is_gone_and_can_be_created_again(store: KeyValue) -> None:
    revision = await store.create("job", b"one")
    await store.delete("job")
    assert await store.get("job") is None
    assert await store.keys() == []
    with pytest.raises(CompareAndSetLost):
        await store.update("job", b"late", revision)
    again = await store.create("job", b"two")
    assert again > revision
    assert await store.get("job") == Entry(value=b"two", revision=again)


async def test_deleting_what_is_not_there_is_no_error(store: KeyValue) -> None:
    await store.delete("nothing")
    assert await store.keys() == []


async def test_keys_lists_live_records_decoded(store: KeyValue) -> None:
    names = [f"node.{number}/Rack" for number in range(30)]
    for name in names:
        await store.create(name, b"x" * 10)
    await store.delete(names[3])
    assert sorted(await store.keys()) == sorted(set(names) - {names[3]})


async def test_an_empty_value_is_a_value(store: KeyValue) -> None:
    revision = await store.create("job", b"")
    assert await store.get("job") == Entry(value=b"", revision=revision)


async def test_a_value_beyond_one_message_comes_back_whole_and_leaves_nothing(store: KeyValue) -> None:
    values = LargeValues(store)
    large, larger = (random.Random(seed).randbytes(size) for seed, size in ((1, 2_000_000), (2, 3_000_000)))
    revision = await values.create("job", larger)
    assert len(await store.keys()) == 5
    revision = await values.update("job", large, revision)
    assert await LargeValues(store).get("job") == Entry(value=large, revision=revision)
    assert await values.keys() == ["job"]
    with pytest.raises(CompareAndSetLost):
        await LargeValues(store).update("job", larger, revision - 1)
    await LargeValues(store).delete("job")
    assert await store.keys() == []

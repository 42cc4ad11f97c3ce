"""What every PeerWindows promises, against the fake and against a real Valkey; and what only a server can do."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from health_ingest.adapters.redis_windows import TTL_S, WAIT_S_MAX, RedisWindows
from health_ingest.application.peer_ports import PeerWindows, WindowsUnavailable
from phalanx_cli.stack.valkey_server import ValkeyServer
from service_kit.clock import SystemClock
from service_kit.testing.memory_windows import MemoryWindows

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]


class Watch(SystemClock):
    """A clock that can be put forward."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


@pytest_asyncio.fixture(params=["fake", "real"])
async def windows(request: pytest.FixtureRequest, unique_name: str) -> AsyncIterator[PeerWindows]:
    if request.param == "fake":
        yield MemoryWindows()
        return
    server: ValkeyServer = request.getfixturevalue("valkey_server")
    real = RedisWindows(server.url, cluster=unique_name, clock=SystemClock())
    yield real
    await real.stop()


async def test_members_of_a_group_see_each_other_and_of_each_the_newest(windows: PeerWindows) -> None:
    assert await windows.share("g", "n0", b"old") == {"n0": b"old"}
    assert await windows.share("g", "n1", b"\x00\xff") == {"n0": b"old", "n1": b"\x00\xff"}
    assert await windows.share("g", "n0", b"new") == {"n0": b"new", "n1": b"\x00\xff"}
    assert await windows.share("other", "n2", b"x") == {"n2": b"x"}


async def test_members_can_be_forgotten(windows: PeerWindows) -> None:
    await windows.share("g", "n0", b"x")
    await windows.forget("g", [])
    await windows.forget("g", ["n0", "never there"])
    await windows.forget("no such group", ["n0"])
    assert await windows.share("g", "n1", b"y") == {"n1": b"y"}


async def test_rows_keep_the_newest_in_order(windows: PeerWindows) -> None:
    for number in range(4):
        found = await windows.append({"a": f"a{number}", "ü b": f"b{number}"}, keep=3)
    assert found == {"a": ("a1", "a2", "a3"), "ü b": ("b1", "b2", "b3")}
    assert await windows.append({"a": "a4"}, keep=2) == {"a": ("a3", "a4")}
    assert await windows.append({}, keep=2) == {}


async def test_two_replicas_share_and_two_clusters_do_not(valkey_server: ValkeyServer, unique_name: str) -> None:
    one, two, other = (
        RedisWindows(valkey_server.url, cluster=cluster, clock=SystemClock())
        for cluster in (unique_name, unique_name, f"{unique_name}-2")
    )
    await one.append({"row": "1"}, keep=5)
    assert await two.append({"row": "2"}, keep=5) == {"row": ("1", "2")}
    assert await other.append({"row": "3"}, keep=5) == {"row": ("3",)}
    for each in (one, two, other):
        await each.stop()


async def test_every_key_has_an_end(fresh_valkey: ValkeyServer) -> None:
    windows = RedisWindows(fresh_valkey.url, cluster="c", clock=SystemClock())
    await windows.share("g", "n", b"x")
    await windows.append({"row": "1"}, keep=5)
    keys = await windows._client.keys("*")
    ends = [await windows._client.ttl(key) for key in keys]
    assert len(keys) == 2
    assert all(0 < end <= TTL_S for end in ends)
    await windows.stop()


async def test_a_server_that_is_gone_is_said_at_once_and_found_again(fresh_valkey: ValkeyServer) -> None:
    clock = Watch()
    windows = RedisWindows(fresh_valkey.url, cluster="c", clock=clock)
    await windows.append({"row": "1"}, keep=5)
    fresh_valkey.kill()
    with pytest.raises(WindowsUnavailable):
        await windows.append({"row": "2"}, keep=5)
    with pytest.raises(WindowsUnavailable, match="not tried again for"):
        await windows.share("g", "n", b"x")
    with pytest.raises(WindowsUnavailable, match="not tried again for"):
        await windows.forget("g", ["n"])
    fresh_valkey.start()
    clock.ahead_s += WAIT_S_MAX
    assert await windows.append({"row": "3"}, keep=5) == {"row": ("3",)}
    await windows.stop()


async def test_a_full_server_counts_as_gone(fresh_valkey: ValkeyServer) -> None:
    windows = RedisWindows(fresh_valkey.url, cluster="c", clock=SystemClock())
    await windows._client.config_set("maxmemory", "1")
    with pytest.raises(WindowsUnavailable, match=r"(?i)memory"):
        await windows.append({"row": "1"}, keep=5)
    await windows.stop()

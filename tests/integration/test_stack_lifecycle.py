"""The stack with real servers: it starts, heals, and is gone with the run, however that ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nats
import pytest

from phalanx_cli.stack import Stack, StackError
from phalanx_cli.stack.nats_server import NatsServer
from phalanx_cli.stack.services import ServiceSpec
from phalanx_cli.stack.state import StackPhase, StackState, read_state
from phalanx_cli.stack.valkey_server import ValkeyServer

pytestmark = pytest.mark.integration

FakeService = Callable[..., ServiceSpec]

PARENT = """
import asyncio, json, sys
from pathlib import Path
from phalanx_cli.stack import ServiceSpec, Stack

async def main():
    specs = [ServiceSpec(**raw) for raw in json.loads(sys.argv[2])]
    async with Stack(Path(sys.argv[1]), "test", services=specs):
        print("up", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def pids_of(stack: Stack) -> dict[str, int]:
    return {record.name: record.identity.pid for record in stack.processes if record.identity is not None}


def descendants(parent_pid: int) -> list[int]:
    """Children of a process; the stack's processes have none of their own."""
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent_pid:
            pids.append(int(stat.parent.name))
    return pids


async def until(condition: Callable[[], bool], within_s: float = 15.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what is waited for lies in files and other processes
            await asyncio.sleep(0.01)


@contextmanager
def parent_of_a_stack(data_dir: Path, spec: ServiceSpec) -> Iterator[subprocess.Popen[bytes]]:
    specs = json.dumps([{"name": spec.name, "module": spec.module, "env": dict(spec.env)}])
    argv = [sys.executable, "-c", PARENT, str(data_dir), specs]
    parent = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        yield parent
    finally:
        parent.kill()
        parent.communicate(timeout=10)


def state_of(data_dir: Path) -> StackState:
    state = read_state(data_dir)
    assert state is not None
    return state


@pytest.mark.asyncio
async def test_everything_runs_inside_the_block_and_nothing_after_it(
    tmp_path: Path, fake_service: FakeService, assert_gone: Callable[..., None]
) -> None:
    async with Stack(tmp_path / "data", "blue", services=[fake_service("one"), fake_service("two")]) as stack:
        pids = pids_of(stack)
        assert set(pids) == {"nats-server", "valkey-server", "one", "two"}
        told = json.loads((tmp_path / "data/logs/one.log").read_text().splitlines()[0].removeprefix("told "))
        assert told == {"NATS_URL": stack.nats_url, "REDIS_URL": stack.redis_url, "PHALANX_CLUSTER": "blue"}
        assert state_of(tmp_path / "data").phase is StackPhase.READY
        with pytest.raises(StackError, match="another stack uses"):
            async with Stack(tmp_path / "data", "blue", services=False):
                pass
    assert_gone(list(pids.values()))
    assert read_state(tmp_path / "data") is None
    assert "ended in order" in (tmp_path / "data/logs/two.log").read_text()


@pytest.mark.asyncio
async def test_a_killed_service_and_a_killed_server_come_back(tmp_path: Path, fake_service: FakeService) -> None:
    async with Stack(tmp_path / "data", "test", services=[fake_service()]) as stack:
        before, nats_url = pids_of(stack), stack.nats_url
        client = await nats.connect(nats_url)
        await client.jetstream().add_stream(name="S", subjects=["s"])
        await client.jetstream().publish("s", b"kept")
        await client.close()
        os.kill(before["fake"], signal.SIGKILL)
        os.kill(before["nats-server"], signal.SIGKILL)

        def healed() -> bool:
            recorded = {m.name: m.identity.pid for m in state_of(tmp_path / "data").members if m.identity is not None}
            return all(recorded[name] != before[name] for name in ("fake", "nats-server"))

        await until(healed)
        assert pids_of(stack)["valkey-server"] == before["valkey-server"]
        client = await nats.connect(nats_url)
        assert (await client.jetstream().get_last_msg("S", "s")).data == b"kept"
        await client.close()


@pytest.mark.asyncio
async def test_restart_ends_in_order_and_the_new_one_is_watched_too(tmp_path: Path, fake_service: FakeService) -> None:
    async with Stack(tmp_path / "data", "test", services=[fake_service()]) as stack:
        first = pids_of(stack)["fake"]
        await stack.restart("fake")
        second = pids_of(stack)["fake"]
        assert second != first
        assert "ended in order" in (tmp_path / "data/logs/fake.log").read_text()
        os.kill(second, signal.SIGKILL)
        await until(lambda: pids_of(stack)["fake"] != second)
        with pytest.raises(StackError, match="runs no nobody; it runs: nats-server, valkey-server, fake"):
            await stack.restart("nobody")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("exit", r"(?s)bad ended before it was ready \(exit code 1\).*logs/bad.log.*fake service: the bus said no"),
        ("malformed", "bad wrote a ready file without pid and http_port"),
    ],
)
async def test_a_service_that_does_not_start_is_quoted_and_nothing_is_left(
    tmp_path: Path, fake_service: FakeService, assert_gone: Callable[..., None], mode: str, message: str
) -> None:
    stack = Stack(tmp_path / "data", "test", services=[fake_service("good"), fake_service("bad", mode)])
    with pytest.raises(StackError, match=message):
        await stack.__aenter__()
    pids = list(pids_of(stack).values())
    assert len(pids) >= 3
    assert_gone(pids, within_s=0.5)
    async with Stack(tmp_path / "data", "test", services=False):
        pass  # the folder is free again


@pytest.mark.asyncio
async def test_servers_of_others_are_used_and_left_alone(
    tmp_path: Path, nats_server: NatsServer, valkey_server: ValkeyServer, fake_service: FakeService
) -> None:
    urls = {"nats_url": nats_server.url, "redis_url": valkey_server.url}
    async with Stack(tmp_path / "data", "test", services=[fake_service()], **urls) as stack:
        assert (stack.nats_url, stack.redis_url) == (nats_server.url, valkey_server.url)
        assert set(pids_of(stack)) == {"fake"}
        assert [record.name for record in stack.processes] == ["nats (external)", "redis (external)", "fake"]
    assert nats_server.problem() is None
    assert valkey_server.problem() is None


@pytest.mark.asyncio
async def test_a_server_of_others_that_is_down_is_one_clear_message_without_its_password(
    tmp_path: Path, fresh_nats: NatsServer
) -> None:
    fresh_nats.kill()
    url = fresh_nats.url.replace("nats://", "nats://me:secret@")
    with pytest.raises(StackError, match=r"NATS_URL \(nats://127.0.0.1:\d+\) does not answer: .*refused") as caught:
        async with Stack(tmp_path / "data", "test", services=False, nats_url=url):
            pass
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_stack_is_gone_within_two_seconds_of_its_parents_end(
    tmp_path: Path, fake_service: FakeService, assert_gone: Callable[..., None], signum: signal.Signals
) -> None:
    with parent_of_a_stack(tmp_path / "data", fake_service()) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n", parent.stderr and parent.stderr.read()
        pids = [identity.pid for identity in state_of(tmp_path / "data").identities()]
        assert len(pids) == 3
        os.killpg(parent.pid, signum)  # the whole foreground group, as a terminal does it
        assert_gone([*pids, parent.pid] if signum == signal.SIGINT else pids, within_s=2.0)
    log = (tmp_path / "data/logs/fake.log").read_text()
    assert ("ended in order" in log) == (signum == signal.SIGINT)


def test_a_parent_killed_while_it_starts_leaves_nothing_and_the_next_start_works(
    tmp_path: Path, fake_service: FakeService, assert_gone: Callable[..., None]
) -> None:
    data_dir = tmp_path / "data"
    with parent_of_a_stack(data_dir, fake_service(mode="never")) as parent:
        deadline = time.monotonic() + 20
        while len(pids := descendants(parent.pid)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        parent.kill()
        assert_gone(pids, within_s=2.0)
    assert state_of(data_dir).phase is StackPhase.STARTING

    async def again() -> StackPhase:
        async with Stack(data_dir, "test", services=[fake_service()]):
            return state_of(data_dir).phase

    assert asyncio.run(again()) is StackPhase.READY

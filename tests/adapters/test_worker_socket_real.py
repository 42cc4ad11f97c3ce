"""The worker socket with real connections from this process, which plays the worker."""

from __future__ import annotations

import asyncio
import os
import random
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from node_agent.adapters import worker_socket as module
from node_agent.adapters.worker_socket import WorkerSocket, private_folder
from node_agent.application.ports import WorkerHandle, WorkerSource
from training_topology.identity import LocalRank, Rank
from worker_link.block_messages import Abort, AtBarrier, BlockEntered, BlockMessage
from worker_link.client import WorkerLink
from worker_link.frames import FrameReader, encode
from worker_link.messages import (
    CheckpointRequest,
    CheckpointSaved,
    Hello,
    RankLabels,
    RestartRequest,
    Step,
    from_wire,
    to_wire,
)

HANDLE = WorkerHandle(
    rank=Rank(2),
    local_rank=LocalRank(0),
    topology_version=7,
    pid=os.getpid(),
    start_ticks=1,
    source=WorkerSource.SPAWN,
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    stacks_on_signal=False,
)
HELLO = encode(to_wire(Hello(rank=2, pid=1, topology_version=7)))


class Reports:
    """Collects what the socket reports."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.bad: list[str] = []
        self.lost = 0

    def on_hello(self, handle: WorkerHandle, message: Hello) -> None:
        self.seen.append(message)

    def on_step(self, handle: WorkerHandle, message: Step) -> None:
        assert handle is HANDLE
        self.seen.append(message)

    def on_checkpoint(self, handle: WorkerHandle, message: CheckpointSaved) -> None:
        self.seen.append(message)

    def on_labels(self, handle: WorkerHandle, message: RankLabels) -> None:
        self.seen.append(message)

    def on_restart_request(self, handle: WorkerHandle, message: RestartRequest) -> None:
        self.seen.append(message)

    def on_block(self, handle: WorkerHandle, message: BlockMessage) -> None:
        self.seen.append(message)

    def on_block_lost(self, handle: WorkerHandle) -> None:
        self.lost += 1

    def on_bad_client(self, pid: int, reason: str) -> None:
        assert pid == os.getpid()
        self.bad.append(reason)


@asynccontextmanager
async def served(
    owner_of: Callable[[int], WorkerHandle | None] = lambda _pid: HANDLE,
) -> AsyncIterator[tuple[WorkerSocket, Reports]]:
    reports = Reports()
    server = WorkerSocket(owner_of=owner_of, reports=reports)
    await server.start()
    try:
        yield server, reports
    finally:
        await server.close()
        assert not server.path.parent.exists()


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(8):
        while not check():  # noqa: ASYNC110  what is waited for happens outside this loop
            await asyncio.sleep(0.005)


@pytest.mark.asyncio
async def test_worker_link_is_understood_and_answered() -> None:
    async with served() as (server, reports):
        assert stat.S_IMODE(server.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(server.path.parent.stat().st_mode) == 0o700
        link = WorkerLink(socket_path=str(server.path), rank=2, topology_version=7)
        link.labels(dp=0)
        link.step(1)
        link.checkpoint_saved(1, "/c/1")
        link.request_restart("job", "why")
        await until(lambda: len(reports.seen) >= 5)
        kinds = [type(message).__name__ for message in reports.seen]
        assert kinds == ["Hello", "RankLabels", "Step", "CheckpointSaved", "RestartRequest"]
        wanted = CheckpointRequest(reason="pre-emption", deadline_s=5.0)
        assert server.send(HANDLE, wanted)
        got: list[CheckpointRequest] = []
        await until(lambda: got.extend(filter(None, [link.checkpoint_requested()])) or got)
        assert got == [wanted]
        link.close()
        await until(lambda: not server._connections)
        assert not server.send(HANDLE, wanted)
        assert reports.bad == []


@pytest.mark.asyncio
async def test_a_request_for_a_checkpoint_goes_to_the_link_and_not_to_the_block() -> None:
    async with served() as (server, reports):
        assert not server.links(HANDLE)
        _, writer = await asyncio.open_unix_connection(str(server.path))
        writer.write(HELLO + encode(to_wire(BlockEntered(topology_version=7))))
        await until(lambda: BlockEntered(topology_version=7) in reports.seen)
        assert not server.links(HANDLE)
        assert not server.send(HANDLE, CheckpointRequest(reason="pre-emption", at_step=4))
        writer.close()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encode(to_wire(Hello(rank=3, pid=1, topology_version=7))), "claims rank 3"),
        (encode(to_wire(Hello(rank=2, pid=1, topology_version=6))), "topology_version 6 but is rank 2"),
        (encode(to_wire(Step(step=1, at_monotonic_s=0.0))), "not hello"),
        (HELLO + b"\x7f\xff\xff\xff", "announces"),
        (HELLO + b"\x00\x00\x00\x01x", "not JSON"),
        (HELLO + encode({"type": "step", "step": -1}), "step.step"),
        (HELLO + encode({"type": "welcome", "topology_version": 1}), "not a worker's message"),
        (HELLO + encode({"type": "from_the_future"}), "'from_the_future' is unknown"),
    ],
    ids=["rank", "version", "no-hello", "large", "torn", "field", "direction", "unknown"],
)
async def test_bad_client_is_told_and_others_go_on(data: bytes, reason: str) -> None:
    async with served() as (server, reports):
        good = WorkerLink(socket_path=str(server.path), rank=2, topology_version=7)
        _, writer = await asyncio.open_unix_connection(str(server.path))
        writer.write(data)
        await until(lambda: reports.bad)
        assert reason in reports.bad[0]
        good.step(8)
        await until(lambda: any(isinstance(m, Step) and m.step == 8 for m in reports.seen))
        writer.close()
        good.close()


@pytest.mark.asyncio
async def test_foreign_process_is_refused_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OWNER_TIME_S_MAX", 0.1)
    async with served(lambda _pid: None) as (server, reports):
        reader, writer = await asyncio.open_unix_connection(str(server.path))
        writer.write(HELLO)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await until(lambda: reports.bad)
        assert "is not a worker" in reports.bad[0]
        assert reports.seen == []
        writer.close()


@pytest.mark.asyncio
async def test_worker_that_connects_before_its_start_is_known_is_heard() -> None:
    known: list[WorkerHandle] = []
    async with served(lambda _pid: known[0] if known else None) as (server, reports):
        link = WorkerLink(socket_path=str(server.path), rank=2, topology_version=7)
        link.checkpoint_saved(3, "/c/3")
        await asyncio.sleep(0.1)
        assert reports.seen == []
        known.append(HANDLE)
        await until(lambda: len(reports.seen) == 2)
        link.close()


@pytest.mark.asyncio
async def test_flood_does_not_starve_the_loop_and_its_last_words_count() -> None:
    async with served() as (server, reports):
        _, writer = await asyncio.open_unix_connection(str(server.path))
        count = 3000
        steps = b"".join(encode(to_wire(Step(step=n, at_monotonic_s=0.0))) for n in range(count))
        writer.write(HELLO + steps + encode(to_wire(CheckpointSaved(step=count, path="/last"))))
        loop = asyncio.get_running_loop()
        longest_s = 0.0
        async with asyncio.timeout(20):
            while len(reports.seen) < count // 2:
                before = loop.time()
                await asyncio.sleep(0)
                longest_s = max(longest_s, loop.time() - before)
        assert longest_s < 0.2
        writer.close()  # the worker dies while most of it is unread
        await until(lambda: isinstance(reports.seen[-1], CheckpointSaved))
        assert len(reports.seen) == count + 2


@pytest.mark.asyncio
async def test_noise_never_ends_the_server() -> None:
    noise = random.Random(4)
    async with served() as (server, reports):
        for _ in range(150):
            _, writer = await asyncio.open_unix_connection(str(server.path))
            head = noise.choice([b"", HELLO, HELLO[: noise.randrange(len(HELLO))]])
            writer.write(
                head
                + noise.choice(
                    [
                        noise.randbytes(noise.randrange(60)),
                        encode({"type": "step", "step": noise.choice([None, 1.5, "1", [], 2**70])}),
                    ]
                )
            )
            writer.close()
        await until(lambda: not server._connections)
        link = WorkerLink(socket_path=str(server.path), rank=2, topology_version=7)
        link.step(77)
        await until(lambda: any(isinstance(m, Step) and m.step == 77 for m in reports.seen))
        link.close()


@pytest.mark.asyncio
async def test_client_that_never_reads_is_cut_off() -> None:
    async with served() as (server, reports):
        _, writer = await asyncio.open_unix_connection(str(server.path))
        writer.write(HELLO)
        await until(lambda: reports.seen)
        request = CheckpointRequest(reason="x" * 1000)
        for _ in range(2000):
            if reports.bad:
                break
            server.send(HANDLE, request)
        assert reports.bad == ["it does not read what it is sent"]
        writer.close()


def test_folder_is_short_even_when_the_runtime_folder_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    folder = private_folder()
    assert len(str(folder / "worker.sock")) < 108
    folder.rmdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/nobody-has-this")
    private_folder().rmdir()


def test_answers_are_readable_by_the_link() -> None:
    reader = FrameReader()
    reader.receive_data(encode(to_wire(CheckpointRequest(reason="r"))))
    message = reader.next_message()
    assert message is not None
    assert from_wire(message) == CheckpointRequest(reason="r")


@pytest.mark.asyncio
async def test_orders_go_to_the_blocks_connection_of_the_present_generation() -> None:
    async with served() as (server, reports):
        link = WorkerLink(socket_path=str(server.path), rank=2, topology_version=7)
        reader, writer = await asyncio.open_unix_connection(str(server.path))
        writer.write(HELLO)
        await until(lambda: len(reports.seen) == 2)
        assert not server.order(HANDLE, Abort(topology_version=7, reason="r")), "nobody has a block yet"
        writer.write(encode(to_wire(BlockEntered(topology_version=7))))
        await until(lambda: BlockEntered(topology_version=7) in reports.seen)
        renewed = replace(HANDLE, topology_version=8)
        server.reassign(HANDLE, renewed)
        assert not server.order(HANDLE, Abort(topology_version=7, reason="old")), "an order for a former generation"
        assert server.order(renewed, Abort(topology_version=8, reason="r"))
        frames = FrameReader()
        got: list[object] = []
        while Abort(topology_version=8, reason="r") not in got:
            frames.receive_data(await asyncio.wait_for(reader.read(4096), 5))
            while (message := frames.next_message()) is not None:
                got.append(from_wire(message))
        writer.write(encode(to_wire(AtBarrier(topology_version=8, healthy=True))))
        await until(lambda: AtBarrier(topology_version=8, healthy=True) in reports.seen)
        writer.close()
        await until(lambda: reports.lost == 1)
        link.close()


@pytest.mark.asyncio
async def test_a_child_of_a_rank_may_report_but_has_no_block() -> None:
    parent = replace(HANDLE, pid=os.getpid() + 1)
    async with served(lambda _pid: parent) as (server, reports):
        _, writer = await asyncio.open_unix_connection(str(server.path))
        writer.write(HELLO + encode(to_wire(BlockEntered(topology_version=7))))
        await until(lambda: reports.bad)
        assert "child of one" in reports.bad[0]
        writer.close()

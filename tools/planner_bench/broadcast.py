"""One StopWorkers to thousands of agents over one nats-server, beside a bare message to the same connections."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from fault_contracts.commands import StopWorkers
from fault_contracts.envelope import Envelope, seal
from fault_contracts.payload import Fence, Reason
from phalanx_cli.stack.nats_server import NatsServer, SyncInterval
from planner_bench.fleet import JOB
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.streams import ensure_streams
from service_kit.ports import Delivery
from service_kit.settings import BusSettings

CLUSTER = "bench"
BARE = "bench.bare"
PROCESSES = 2
CONNECT_TOGETHER = 64
LIMIT_S = 120.0
TOOLS = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """From the publisher's call to the handler of each agent, in seconds; the median over the rounds."""

    median_s: float
    p99_s: float
    last_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """Both ways, over the same connections.

    Attributes:
        stop: the command, stored in its stream, republished, decoded and handed to each agent's handler.
        bare: as many bytes on a subject without a stream, not decoded.
    """

    agents: int
    rounds: int
    stop: Spread
    bare: Spread


async def measure(folder: Path, sync: SyncInterval, *, agents: int, rounds: int) -> Broadcast:
    """Connect the agents from child processes, then broadcast."""
    server = NatsServer(data_dir=folder / "nats", sync_interval=sync)
    server.start()
    settings = BusSettings(nats_url=server.url, cluster=CLUSTER)
    connection = await connect(settings, name="planner")
    try:
        await ensure_streams(connection, settings)
        bus = JetStreamBus(connection, cluster="bench")
        crowd = await _crowd(server.url, agents)
        try:
            stops = [await _round(crowd, partial(bus.publish, _stop(number))) for number in range(rounds)]
            size = len(_stop(0).model_dump_json())
            bares = [await _round(crowd, lambda: connection.client.publish(BARE, b"x" * size)) for _ in range(rounds)]
        finally:
            for child in crowd:
                child.terminate()
                await child.wait()
    finally:
        await connection.close()
        server.stop()
    return Broadcast(agents=agents, rounds=rounds, stop=_median(stops), bare=_median(bares))


def _stop(number: int) -> Envelope[StopWorkers]:
    now = datetime.now(UTC)
    command = StopWorkers(
        job_id=JOB,
        operation_id=f"stop-{number}",
        fence=Fence(topology_version=number + 1, attempt=0, incident_id="bench", epoch=0),
        expires_at=now + timedelta(seconds=600),
        grace_s=0.0,
        reason=Reason(rule_id="bench", sentence="rank 3 on node-00000 was killed by signal 9"),
    )
    return seal(command, source="bench", cause_id="bench", time=now, ordinal=number)


async def _round(crowd: list[asyncio.subprocess.Process], send: Callable[[], Awaitable[object]]) -> Spread:
    began_s = time.monotonic()
    await send()
    waits: list[float] = []
    for child in crowd:
        waits += [heard_s - began_s for heard_s in json.loads(await _line(child))]
    waits.sort()
    return Spread(median_s=statistics.median(waits), p99_s=waits[len(waits) * 99 // 100], last_s=waits[-1])


def _median(rounds: list[Spread]) -> Spread:
    return Spread(
        median_s=statistics.median(each.median_s for each in rounds),
        p99_s=statistics.median(each.p99_s for each in rounds),
        last_s=statistics.median(each.last_s for each in rounds),
    )


async def _crowd(url: str, agents: int) -> list[asyncio.subprocess.Process]:
    children = []
    for number in range(PROCESSES):
        share = agents // PROCESSES + (number < agents % PROCESSES)
        command = (sys.executable, "-c", "from planner_bench.broadcast import main; main()", url, str(share))
        path = {"PYTHONPATH": TOOLS}
        children.append(
            await asyncio.create_subprocess_exec(*command, env=path, stdout=asyncio.subprocess.PIPE, limit=1 << 24)
        )
    for child in children:
        assert json.loads(await _line(child)) == "ready"
    return children


async def _line(child: asyncio.subprocess.Process) -> bytes:
    assert child.stdout is not None
    line = await asyncio.wait_for(child.stdout.readline(), LIMIT_S)
    if not line:
        raise RuntimeError(f"a process of agents ended with {await child.wait()}")
    return line


async def _agents(url: str, count: int) -> None:
    """`count` agents with a connection each; prints when each of them heard, once all have."""
    settings = BusSettings(nats_url=url, cluster=CLUSTER)
    heard: list[float] = []
    slots = asyncio.Semaphore(CONNECT_TOGETHER)

    def note() -> None:
        heard.append(time.monotonic())
        if len(heard) == count:
            print(json.dumps(heard), flush=True)
            heard.clear()

    async def take(_: Delivery) -> None:
        note()

    async def take_bare(_: object) -> None:
        note()

    async def join(number: int) -> Connection:
        async with slots:
            connection = await connect(settings, name=f"agent-{number}")
            bus = JetStreamBus(connection, cluster="bench")
            await bus.listen(messages=[StopWorkers], handler=take, key=JOB)
            await connection.client.subscribe(BARE, cb=take_bare)
            await connection.settle()
            return connection

    connections = await asyncio.gather(*(join(number) for number in range(count)))
    print(json.dumps("ready"), flush=True)
    await asyncio.gather(*(connection.closed.wait() for connection in connections))


def main() -> None:
    """The part of a child process: url and number of agents are its arguments."""
    asyncio.run(_agents(sys.argv[1], int(sys.argv[2])))

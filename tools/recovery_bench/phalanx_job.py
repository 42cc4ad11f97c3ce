"""One recovery of Phalanx, as a user runs it: a fresh job, fresh servers, and all of it ended."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from fault_contracts.recovery import IncidentClosed
from phalanx_cli.stack.stack import Stack
from recovery_bench.contestants import COMMON_ENV, RECOVERY_LIMIT_S, TRAINING, Run, kill_and_wait
from recovery_bench.processes import Started
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.ports import Delivery
from service_kit.settings import BusSettings

CLUSTER = "bench"


def run_phalanx(folder: Path) -> Run:
    """Embedded servers and services, two agents, one kill."""
    return asyncio.run(_run(folder))


async def _run(folder: Path) -> Run:
    closed: asyncio.Queue[IncidentClosed] = asyncio.Queue(maxsize=8)

    async def keep(delivery: Delivery) -> None:
        await closed.put(delivery.envelope.data)

    async with AsyncExitStack() as exits:
        stack = await exits.enter_async_context(Stack(folder / "stack", CLUSTER))
        connection = await connect(BusSettings(nats_url=stack.nats_url, cluster=CLUSTER), name="bench")
        exits.push_async_callback(connection.close)
        bus = JetStreamBus(connection, cluster=CLUSTER)
        journal = await bus.consume(durable="bench", messages=[IncidentClosed], handler=keep, from_now=True)
        exits.push_async_callback(journal.stop)
        started = Started(folder)
        exits.push_async_callback(asyncio.to_thread, started.end)
        for node in ("node-0", "node-1"):
            started.start(node, _command(node, folder / node, stack.nats_url), COMMON_ENV)
        recovery, load = await asyncio.to_thread(kill_and_wait, folder)
        incident = await asyncio.wait_for(closed.get(), RECOVERY_LIMIT_S)
        return Run(recovery=recovery, phases=incident.phases, load=load)


def _command(node: str, folder: Path, nats_url: str) -> list[str]:
    """Defaults, but for the number of restarts (as torchrun's) and for output in files."""
    return [
        *(sys.executable, "-P", "-m", "phalanx_cli.main", "run"),
        *("--nnodes", "2", "--nproc-per-node", "2", "--job-id", "bench", "--node-id", node),
        *("--max-restarts", "100", "--cluster", CLUSTER, "--nats-url", nats_url),
        *("--data-dir", str(folder), "--log-dir", str(folder / "ranks"), "--redirects", "3", TRAINING),
    ]

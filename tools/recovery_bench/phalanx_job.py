"""One recovery of Phalanx, as a user runs it: a fresh job, fresh servers, and all of it ended."""

import asyncio
import sys
from pathlib import Path

from fault_contracts.recovery import IncidentClosed
from phalanx_cli.stack.stack import Stack
from recovery_bench.contestants import COMMON_ENV, RECOVERY_LIMIT_S, TRAINING, Run, kill_and_wait
from recovery_bench.processes import Started
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.ports import Delivery
from service_kit.settings import BusSettings


def run_phalanx(folder: Path) -> Run:
    """Embedded servers and services, two agents, one kill."""
    return asyncio.run(_run_phalanx(folder))


async def _run_phalanx(folder: Path) -> Run:
    started = Started(folder)
    closed: asyncio.Queue[IncidentClosed] = asyncio.Queue(maxsize=8)

    async def keep(delivery: Delivery) -> None:
        await closed.put(delivery.envelope.data)

    async with Stack(folder / "stack", "bench") as stack:
        connection = await connect(BusSettings(nats_url=stack.nats_url, cluster="bench"), name="bench")
        try:
            bus = JetStreamBus(connection, cluster="bench")
            subscription = await bus.consume(durable="bench", messages=[IncidentClosed], handler=keep, from_now=True)
            for node in range(2):
                argv = [
                    *(sys.executable, "-P", "-m", "phalanx_cli.main", "run"),
                    *("--nnodes", "2", "--nproc-per-node", "2", "--job-id", "bench", "--node-id", f"node-{node}"),
                    *("--max-restarts", "100", "--cluster", "bench", "--nats-url", stack.nats_url),
                    *("--data-dir", str(folder / f"node-{node}"), "--log-dir", str(folder / f"node-{node}" / "ranks")),
                    *("--redirects", "3", TRAINING),
                ]
                started.start(f"agent{node}", argv, COMMON_ENV)
            recovery, load = await asyncio.to_thread(kill_and_wait, folder)
            incident = await asyncio.wait_for(closed.get(), RECOVERY_LIMIT_S)
            await subscription.stop()
            return Run(recovery=recovery, phases=incident.phases, load=load)
        finally:
            await asyncio.to_thread(started.end)
            await connection.close()

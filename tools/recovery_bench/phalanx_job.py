"""Phalanx as a user runs it: a fresh job on two nodes, on embedded servers that serve all runs."""

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from fault_contracts.recovery import IncidentClosed, PhaseTimes
from phalanx_cli.stack.stack import Stack
from recovery_bench.cells import Fault
from recovery_bench.events import NotReached
from recovery_bench.job import COMMON_ENV, START_LIMIT_S, TRAINING, Job
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.ports import Delivery
from service_kit.settings import BusSettings

CLUSTER = "bench"
PHASES_LIMIT_S = 30.0
"""The incident is closed a moment after the first step."""
PREPARED = "workers will be forked from a prepared process"


class PhalanxServers:
    """Servers and services, and the closed incidents of the job that runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.closed: asyncio.Queue[IncidentClosed] = asyncio.Queue(maxsize=64)
        self.nats_url = ""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as exits:
            stack = await exits.enter_async_context(Stack(self._folder, CLUSTER))
            self.nats_url = stack.nats_url
            connection = await connect(BusSettings(nats_url=stack.nats_url, cluster=CLUSTER), name="bench")
            exits.push_async_callback(connection.close)
            bus = JetStreamBus(connection, cluster=CLUSTER)
            journal = await bus.consume(durable="bench", messages=[IncidentClosed], handler=self._keep, from_now=True)
            exits.push_async_callback(journal.stop)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exits.aclose()

    async def _keep(self, delivery: Delivery) -> None:
        await self.closed.put(delivery.envelope.data)


class PhalanxJob(Job):
    """Two agents, and a spare for the fault that takes a node. `block`: the training function is re-executable."""

    def __init__(self, folder: Path, servers: PhalanxServers, *, block: bool) -> None:
        super().__init__(folder)
        self._servers = servers
        self._block = block
        self._nodes = 0

    async def start(self) -> None:
        """Both agents."""
        while not self._servers.closed.empty():
            self._servers.closed.get_nowait()  # of the job before
        for _ in range(2):
            self._start_agent()

    async def prepare(self, fault: Fault) -> None:
        """The spare is there and has imported torch before its node is needed: that is what a spare is."""
        if fault is Fault.NODE:
            log_path = self.folder / f"{self._start_agent()}.log"
            await self.log.until(lambda: PREPARED in log_path.read_text(errors="replace"), "the spare", START_LIMIT_S)

    async def lose_node(self, agent: int) -> float:
        """The agent alone: none of its ranks outlives it."""
        fault_s = time.monotonic()
        self.started.kill(agent, descendants_too=False)
        return fault_s

    async def phases(self) -> PhaseTimes:
        """From the planner's journal."""
        try:
            incident = await asyncio.wait_for(self._servers.closed.get(), PHASES_LIMIT_S)
        except TimeoutError:
            raise NotReached("the incident was not closed") from None
        return incident.phases

    def _start_agent(self) -> str:
        node = f"node-{self._nodes}"
        self._nodes += 1
        folder = self.folder / node
        argv = [
            *(sys.executable, "-P", "-m", "phalanx_cli.main", "run"),
            *("--nnodes", "2", "--nproc-per-node", "2", "--spares", "1"),
            *("--job-id", f"bench-{self.folder.name}", "--node-id", node, "--cluster", CLUSTER),
            # Defaults, but for the number of restarts (as torchrun's) and for output in files.
            *("--max-restarts", "100", "--nats-url", self._servers.nats_url),
            *("--data-dir", str(folder), "--log-dir", str(folder / "ranks"), "--redirects", "3", TRAINING),
        ]
        self.started.start(node, argv, {**COMMON_ENV, "BENCH_BLOCK": "1" if self._block else "0"})
        return node

"""The demo's nodes: one real `phalanx run` process each, with its terminal output in a file."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from phalanx_cli.demo.machine import socket_of
from phalanx_cli.demo.scenario import NODES, RANKS_PER_NODE
from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec

LEAVE_LIMIT_S = 15.0
"""After EndJob an agent stops its ranks, flushes its outbox and leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the agents of one job find things."""

    job_id: str
    cluster: str
    nats_url: str
    folder: Path
    """Terminal output, ranks' logs and data of the agents."""
    machines: Path | None = None
    """Folder in which the machines listen that the agents run on; None: they run here."""

    def command(self, node_id: str, log: Path) -> tuple[str, ...]:
        """What runs `phalanx run` on the machine of a node."""
        if self.machines is None:
            bus = ("--nats-url", self.nats_url)
            return (sys.executable, "-P", "-m", "phalanx_cli.main", "run", *bus)
        # A machine of its own has an identity of its own on the bus, and secrets have no place among arguments.
        socket = socket_of(self.machines, node_id)
        return (sys.executable, "-P", "-m", "phalanx_cli.demo.elsewhere", str(socket), str(log))


class Agents:
    """The agents of one job; all are ended with the block, however it is left."""

    def __init__(self, place: Place, script: tuple[str, ...], *, spares: int, files: tuple[str, ...] = ()) -> None:
        self._place = place
        self._script = script
        self._spares = spares
        self._files = files
        self.processes: dict[str, GuardedProcess] = {}

    def __enter__(self) -> Agents:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.stop(LEAVE_LIMIT_S)

    def start(self, node_id: str) -> None:
        """Start the agent of one node."""
        place = self._place
        argv = (
            *place.command(node_id, self.log_path(node_id)),
            *("--nnodes", str(NODES), "--nproc-per-node", str(RANKS_PER_NODE), "--spares", str(self._spares)),
            *("--job-id", place.job_id, "--node-id", node_id, "--max-restarts", "10"),
            *("--cluster", place.cluster),
            *("--data-dir", str(place.folder / node_id), "--log-dir", str(place.folder / node_id / "ranks")),
            *("--redirects", "3"),
            *self._files,
            "-m",
            *self._script,
        )
        spec = ProcessSpec(
            name=node_id,
            argv=argv,
            log_path=self.log_path(node_id),
            # The ranks of all nodes share this machine's loopback; gloo would otherwise look the host name up.
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONUNBUFFERED": "1"},
        )
        self.processes[node_id] = GuardedProcess(spec)

    async def stop(self, node_id: str) -> None:
        """End the agent of one node, as its user would."""
        await self.processes[node_id].stop_async(LEAVE_LIMIT_S)

    def log_path(self, node_id: str) -> Path:
        """The terminal output of a node's agent."""
        return self._place.folder / f"{node_id}.log"

    async def left(self) -> dict[str, str]:
        """Wait until the agents have left by themselves, and say how each ended; `running` for one that did not."""
        waits = [asyncio.create_task(process.wait()) for process in self.processes.values()]
        await asyncio.wait(waits, timeout=LEAVE_LIMIT_S)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        return {node_id: process.ending for node_id, process in self.processes.items()}

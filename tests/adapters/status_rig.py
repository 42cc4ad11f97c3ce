"""A status API with real sockets over real ranks, and a client that speaks HTTP by hand."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker_rig import Rig, rig

from fault_contracts.agent import AgentPhase, JobSpec
from node_agent.adapters.status_api import StatusApi
from node_agent.adapters.status_options import StatusOptions
from node_agent.adapters.worker_output import rank_files
from node_agent.application.agent_life import AgentIdentity, AgentLife, JobProgram
from node_agent.application.ports import ProgramKind, TerminalCopy, WorkerSource
from node_agent.domain.worker_group import WorkerGroup
from service_kit.clock import SystemClock
from training_topology.identity import Rank


class Backlog:
    """An outbox that has nothing to send."""

    dropped = 0

    def __len__(self) -> int:
        return 0


@dataclass
class Answer:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)


@dataclass
class StatusRig:
    """The API, its agent's life and its ranks."""

    api: StatusApi
    life: AgentLife
    ranks: Rig
    said: list[str]
    folder: Path

    def say(self, line: str) -> None:
        self.said.append(line)

    @property
    def socket(self) -> str:
        return next(line for line in self.said if "--unix-socket" in line).split()[3]

    @property
    def port(self) -> int:
        return int(next(line for line in self.said if "http://127" in line).split(":")[3].split("/")[0])

    async def start_rank(self, script: str, rank: int = 0) -> None:
        """Start a real rank and let the agent know of it."""
        handle = await self.ranks.workers.start(self.ranks.spec(self.ranks.script(script, f"r{rank}.py"), rank=rank))
        self.life.handles.append(handle)
        self.life.phase, self.life.topology_version = AgentPhase.RUNNING, 1
        self.life.group = WorkerGroup(topology_version=1, first_rank=Rank(0), nproc=2)

    async def get(
        self, target: str, *, tcp: bool = False, head: str = "Host: localhost", method: str = "GET"
    ) -> Answer:
        """One request on a connection of its own."""
        if tcp:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        else:
            reader, writer = await asyncio.open_unix_connection(self.socket)
        writer.write(f"{method} {target} HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n".encode())
        try:
            async with asyncio.timeout(30):
                raw = await reader.read()
        finally:
            writer.close()
        return parsed(raw)


def parsed(raw: bytes) -> Answer:
    """An answer from its bytes."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(status=int(first.split()[1]), headers=headers, body=body)


@asynccontextmanager
async def status_rig(folder: Path, options: StatusOptions | None = None) -> AsyncIterator[StatusRig]:
    """Open the API in a folder."""
    said: list[str] = []
    async with rig(folder, WorkerSource.SPAWN) as ranks:
        life = AgentLife(
            identity=AgentIdentity(
                node_id="n0", instance_id="i", job_id="job", address="127.0.0.1", host="h", pid=os.getpid()
            ),
            spec=JobSpec(nnodes=1, nproc_per_node=2),
            program=JobProgram(
                kind=ProgramKind.SCRIPT,
                program="train.py",
                args=(),
                cwd=folder,
                role="default",
                base_env={},
                files=lambda version, local_rank: rank_files(folder / "logs", "job", version, local_rank),
                terminal=lambda _local_rank: TerminalCopy(),
            ),
        )
        found = StatusRig(None, life, ranks, said, folder)  # type: ignore[arg-type]
        found.api = StatusApi(life, ranks.workers, Backlog(), SystemClock(), found)
        try:
            found.api.open(options or StatusOptions(), folder)
            yield found
        finally:
            await found.api.close()

"""application.validation_ports.Gang over TCP: members connect, are told what to do, and answer; one JSON object a line.

The coordinator runs on node_rank 0 and imports no torch, so nothing that a device or a network does can hang it. A
member's death shows as the end of its connection, its hang as a deadline. Other nodes keep a connection too: they bring
what they found on their own machine, tell how their members ended, and get the report.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from node_agent.application.validation_ports import Answer, AnswerEnd, DeviceOrder, Finding, GroupOrder, Member
from service_kit.foreign_text import printable
from service_kit.logging import get_logger

LINE_MAX = 1 << 20
"""Of one message: a node's report of its own checks is some 10 KB."""
CONNECTIONS_MAX = 16_384
"""More than the ranks of any gang; a port scanner must not fill the memory."""
HELLO_S = 30.0
"""For the first line of a connection; a member says it when torch is imported, which may take a while."""
SLACK_S = 5.0
"""On top of the limit that a member keeps itself: it may have to be scheduled, and to tell of its own time-out."""
EXIT_TOLD_S = 1.0
"""For the node to tell how a member ended, once its connection is closed."""

log = get_logger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class _Line:
    member: Member
    store: tuple[str, int]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: int = 0
    end: AnswerEnd | None = None
    """Gone for good."""


@dataclass(slots=True, kw_only=True)
class NodeLine:
    """Another node: its own findings come once; the report goes out at the end."""

    writer: asyncio.StreamWriter
    findings: asyncio.Future[list[dict[str, Any]]] = field(repr=False)


class Coordinator:
    """Serves one validation."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._lines: dict[int, _Line] = {}
        self._nodes: dict[int, NodeLine] = {}
        self._exits: dict[int, str] = {}
        self._news = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self, address: str, port: int) -> int:
        """Listen; returns the port.

        Raises:
            OSError: it cannot.
        """
        self._server = await asyncio.start_server(self._welcome, address, port, limit=LINE_MAX)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Hang up on everybody: members leave when they read the end."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.close()

    async def tell_exit(self, rank: int, how: str) -> None:
        """A member of this or another node ended."""
        async with self._news:
            self._exits[rank] = how
            self._news.notify_all()

    async def gather(self, world_size: int, *, limit_s: float) -> Mapping[int, Member]:
        """See the port. One that ended is not waited for."""

        def all_there() -> bool:
            return len(self._lines.keys() | self._exits.keys()) >= world_size

        try:
            async with asyncio.timeout(limit_s), self._news:
                await self._news.wait_for(all_there)
        except TimeoutError:
            log.warning("members_missing", wanted=world_size, came=len(self._lines))
        return {rank: line.member for rank, line in self._lines.items() if rank < world_size}

    async def findings_of(self, node_rank: int, *, limit_s: float) -> list[dict[str, Any]] | None:
        """What another node found on its own machine; None: it did not tell in time."""
        try:
            async with asyncio.timeout(limit_s):
                async with self._news:
                    await self._news.wait_for(lambda: node_rank in self._nodes)
                return await asyncio.shield(self._nodes[node_rank].findings)
        except (TimeoutError, ConnectionError):
            return None

    async def send_report(self, report: dict[str, Any]) -> None:
        """To every other node, so that all of them end with the same verdict."""
        for node_rank, node in self._nodes.items():
            try:
                node.writer.write(_encoded({"report": report}))
                async with asyncio.timeout(SLACK_S):
                    await node.writer.drain()
            except (OSError, TimeoutError) as error:
                log.warning("report_not_delivered", node_rank=node_rank, error=str(error))

    async def ask(self, rank: int, order: DeviceOrder | GroupOrder, *, limit_s: float) -> Answer:
        """See the port."""
        line = self._lines[rank]
        if line.end is not None:
            return Answer(end=line.end, detail="gone before")
        line.asked += 1
        try:
            async with asyncio.timeout(limit_s + SLACK_S):
                line.writer.write(_encoded({"id": line.asked, **self._spelled(rank, order, limit_s)}))
                await line.writer.drain()
                told = await _next(line.reader)
                if told.get("id") != line.asked:
                    raise ValueError(f"answer {told.get('id')!r} to question {line.asked}")
                return _answer(told)
        except TimeoutError:
            line.end = AnswerEnd.SILENT
            return Answer(end=AnswerEnd.SILENT, detail=f"no answer within {limit_s + SLACK_S:g} s")
        except (OSError, EOFError):
            line.end = AnswerEnd.DIED
            return Answer(end=AnswerEnd.DIED, detail=await self._exit_of(rank))
        except (ValueError, TypeError, KeyError) as error:
            line.end = AnswerEnd.DIED
            return Answer(end=AnswerEnd.DIED, detail=f"it talks nonsense: {error}"[:300])

    async def _exit_of(self, rank: int) -> str:
        try:
            async with asyncio.timeout(EXIT_TOLD_S), self._news:
                await self._news.wait_for(lambda: rank in self._exits)
        except TimeoutError:
            return "its connection broke"
        return self._exits[rank]

    def _spelled(self, rank: int, order: DeviceOrder | GroupOrder, limit_s: float) -> dict[str, Any]:
        if isinstance(order, DeviceOrder):
            return {
                "do": "device",
                "matmul_size": order.matmul_size,
                "duration_s": order.duration_s,
                "memory_bytes": order.memory_bytes,
            }
        return {
            "do": "pair" if order.is_pair else "sum",
            "rank": order.ranks.index(rank),
            "size": len(order.ranks),
            "key": f"{self._run_id}/{order.key}",
            "store": self._lines[order.ranks[0]].store,
            "size_bytes": order.size_bytes,
            "repeats": order.repeats,
            "limit_s": limit_s,
        }

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._open.add(writer)
        try:
            async with asyncio.timeout(HELLO_S * 10):
                hello = (await _next(reader))["hello"]
            if hello["run"] != self._run_id:
                raise ValueError(f"comes for run {str(hello['run'])[:64]!r}; this is {self._run_id!r}")
            if "rank" not in hello:
                await self._attend_node(int(hello["node_rank"]), reader, writer)
                return
            await self._take_member(hello, reader, writer)
        except (OSError, EOFError, TimeoutError, ValueError, KeyError, TypeError) as error:
            log.warning("stranger_refused", peer=str(writer.get_extra_info("peername")), error=str(error)[:200])
            self._open.discard(writer)
            writer.close()

    async def _take_member(
        self, hello: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        member = Member(
            rank=int(hello["rank"]),
            node_rank=int(hello["node_rank"]),
            node_id=str(hello["node_id"])[:256],
            device=str(hello["device"])[:64],
            device_id=str(hello["device_id"])[:256],
            device_name=str(hello["device_name"])[:256],
        )
        async with self._news:
            if member.rank in self._lines:
                raise ValueError(f"rank {member.rank} is there already, from {self._lines[member.rank].member.node_id}")
            store = (str(hello["store_address"])[:256], int(hello["store_port"]))
            self._lines[member.rank] = _Line(member=member, store=store, reader=reader, writer=writer)
            self._news.notify_all()

    async def _attend_node(self, node_rank: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        node = NodeLine(writer=writer, findings=asyncio.get_running_loop().create_future())
        async with self._news:
            if node_rank in self._nodes:
                raise ValueError(f"node rank {node_rank} is there already")
            self._nodes[node_rank] = node
            self._news.notify_all()
        try:
            while True:
                told = await _next(reader)
                if "exited" in told:
                    await self.tell_exit(int(told["exited"]["rank"]), str(told["exited"]["how"])[:300])
                elif not node.findings.done():
                    node.findings.set_result(list(told["findings"]))
        finally:
            if not node.findings.done():
                node.findings.set_exception(ConnectionError("the node hung up"))
                node.findings.exception()  # it may be that nobody asks for it; the report then names the node


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def _next(reader: asyncio.StreamReader) -> dict[str, Any]:
    """One message.

    Raises:
        EOFError: the other side is gone.
        ValueError: too long, or no JSON object.
    """
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    told = json.loads(line)
    if not isinstance(told, dict):
        raise ValueError("not a JSON object")
    return told


def _answer(told: dict[str, Any]) -> Answer:
    return Answer(
        end=AnswerEnd(told["end"]),
        detail=printable(str(told.get("detail", "")))[:300],
        values={str(name)[:64]: float(value) for name, value in dict(told.get("values", {})).items()},
        findings=tuple(
            Finding(
                check=str(found["check"])[:64],
                end=str(found["end"])[:16],
                sentence=str(found["sentence"])[:500],
                values={str(name)[:64]: float(value) for name, value in dict(found["values"]).items()},
            )
            for found in told.get("findings", [])
        ),
    )

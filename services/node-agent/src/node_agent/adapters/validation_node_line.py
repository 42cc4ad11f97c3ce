"""A node that does not coordinate: its line to the one that does. Brings its findings, gets the report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from node_agent.adapters.validation_coordinator import LINE_MAX
from node_agent.adapters.validation_report import line_of
from node_agent.domain.validation_result import CheckResult

REPORT_BYTES_MAX = 64 << 20
"""Some 1 KB for a line: the report of the largest gang has under 30,000 of them."""
RETRY_S = 0.2


class NodeLineBroken(Exception):
    """The coordinator is not there, or went away before the report; the text is for the user."""


class NodeLine:
    """One connection to node rank 0."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: str, port: int, *, run_id: str, node_rank: int, limit_s: float) -> NodeLine:
        """Connect; node rank 0 may start later than this one.

        Raises:
            NodeLineBroken: it did not within limit_s.
        """
        last = "no attempt"
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    try:
                        reader, writer = await asyncio.open_connection(address, port, limit=REPORT_BYTES_MAX)
                        break
                    except OSError as error:
                        last = str(error)
                        await asyncio.sleep(RETRY_S)
        except TimeoutError:
            raise NodeLineBroken(f"node rank 0 is not at {address}:{port} ({last})") from None
        line = cls(reader, writer)
        line._say({"hello": {"run": run_id, "node_rank": node_rank}})
        return line

    async def tell_exit(self, rank: int, how: str) -> None:
        """A member of this node ended."""
        self._say({"exited": {"rank": rank, "how": how}})

    def tell_findings(self, node_id: str, results: Sequence[CheckResult]) -> None:
        """What this node found on its own machine; shortened to what a line holds."""
        lines = [{**line_of(result), "node_id": node_id} for result in results]
        while len(json.dumps({"findings": lines})) >= LINE_MAX:
            lines.pop()
        self._say({"findings": lines})

    async def report(self, *, limit_s: float) -> dict[str, Any]:
        """The report of the whole gang.

        Raises:
            NodeLineBroken: it did not come.
        """
        try:
            async with asyncio.timeout(limit_s):
                raw = await self._reader.readline()
        except (TimeoutError, OSError, ValueError) as error:
            raise NodeLineBroken(f"no report from node rank 0: {str(error) or f'not within {limit_s:g} s'}") from error
        if not raw.endswith(b"\n"):
            raise NodeLineBroken("node rank 0 hung up without a report (did it refuse this --run-id or --node-rank?)")
        report: dict[str, Any] = json.loads(raw)["report"]
        return report

    def close(self) -> None:
        """Hang up."""
        self._writer.close()

    def _say(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

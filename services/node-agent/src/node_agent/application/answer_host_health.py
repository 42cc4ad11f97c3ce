"""Answers `host_health`: the whole table of the node as JSON, for `phalanx node` and for the gate before work.

Bounded: the worst rows come first, and what does not fit is left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from node_agent.application.host_life import HostLife
from node_agent.domain.host_board import Row
from node_agent.domain.look_schedule import Watch
from service_kit.ports import Clock

ANSWER_BYTES_MAX = 900_000
"""nats-server carries 1 MB (max_payload)."""
DETAIL_MAX = 512


class HostHealthAnswer:
    """The reply to one question. `uptime_s`: of the machine, None where it cannot be told."""

    def __init__(self, life: HostLife, clock: Clock, *, uptime_s: Callable[[], float | None]) -> None:
        self._life = life
        self._clock = clock
        self._uptime_s = uptime_s

    async def reply(self, _body: bytes) -> bytes:
        """See fault_contracts.asks."""
        return json.dumps(self.answer(), separators=(",", ":")).encode()

    def answer(self) -> dict[str, Any]:
        """The answer as plain data."""
        me, now_s = self._life.identity, self._clock.monotonic_s()
        table = self._life.board.table()
        rows: list[dict[str, Any]] = []
        used = 0
        for row in table:
            shown = _row(row, now_s)
            used += len(json.dumps(shown, separators=(",", ":"))) + 1
            if used > ANSWER_BYTES_MAX:
                break
            rows.append(shown)
        return {
            "node_id": me.node_id,
            "instance_id": me.instance_id,
            "boot_id": me.boot_id,
            "host": me.host,
            "uptime_s": self._uptime_s(),
            "started_at": me.started_at.isoformat(),
            "answered_at": self._clock.now().isoformat(),
            "collectors": [_watch(watch, now_s) for watch in self._life.watches()],
            "events_dropped": self._life.queue.dropped,
            "rows": rows,
            "cut": len(table) - len(rows) + self._life.board.left_out,
        }


def _row(row: Row, now_s: float) -> dict[str, Any]:
    seen = row.observation
    return {
        "component": seen.component.value,
        "component_id": seen.component_id,
        "check": seen.check,
        "health": seen.health.value,
        "detail": seen.detail[:DETAIL_MAX],
        "values": dict(seen.values),
        "attributes": dict(seen.attributes),
        "count": seen.count,
        "old": seen.old,
        "event": row.event,
        "source": row.source,
        "age_s": round(max(0.0, now_s - row.seen_s), 1),
        "observed_at": seen.observed_at.isoformat(),
    }


def _watch(watch: Watch, now_s: float) -> dict[str, Any]:
    return {
        "name": watch.name,
        "state": watch.state.value,
        "looks": watch.looks,
        "misses": watch.misses,
        "age_s": None if watch.looked_s is None else round(max(0.0, now_s - watch.looked_s), 1),
        "took_s": round(watch.took_s, 3),
        "problem": watch.problem[:DETAIL_MAX],
    }

"""What the planner does about nodes: its records, as plain data; and the order to it to hold a node or let it go."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from recovery_planner.domain.node_life import NodeLife
    from service_kit.settings import BusSettings

READ_AT_ONCE = 64
NODES_MAX = 4_096
ASK_LIMIT_S = 10.0
"""The planner writes the record and tells the jobs that have an agent there before it answers."""


async def care_of(settings: BusSettings, node_id: str = "") -> dict[str, Any]:
    """`{"nodes": {name: ...}, "breaker": ...}`: of one node, or of all that were ever in care."""
    from fault_contracts.registry import Bucket
    from recovery_planner.adapters.kv_lives import KvNodeLives
    from service_kit.clock import SystemClock
    from service_kit.errors import ServiceError
    from service_kit.jetstream.connection import connect
    from service_kit.jetstream.key_value import JetStreamKeyValue

    connection = await connect(settings, name="phalanx-care")
    limit = asyncio.Semaphore(READ_AT_ONCE)
    now = SystemClock().now()
    try:
        lives = KvNodeLives(JetStreamKeyValue(connection, Bucket.REMEDIES, cluster=settings.cluster))

        async def look(name: str) -> dict[str, Any] | None:
            async with limit:
                try:
                    stored = await lives.load(name)
                except ServiceError as error:
                    return {"node_id": name, "phase": "unknown", "why": str(error)}
            return None if stored is None else care_view(stored.life, now)

        try:
            names = [node_id] if node_id else sorted(await lives.node_ids())[:NODES_MAX]
            found = [view for view in await asyncio.gather(*map(look, names)) if view is not None]
            breaker = await lives.load_breaker()
        except ServiceError as error:
            return {"nodes": {}, "breaker": None, "problem": f"the care of nodes cannot be read: {error}"}
    finally:
        await connection.close()
    shown = None
    if breaker is not None and breaker.breaker.since is not None:
        own = breaker.breaker
        why = own.reason.sentence if own.reason is not None else ""
        shown = {"state": str(own.state), "since_s": age_s(own.since, now), "trial": own.trial, "why": why}
    return {"nodes": {view["node_id"]: view for view in found}, "breaker": shown, "problem": ""}


def care_view(life: NodeLife, now: datetime) -> dict[str, Any]:
    """One record for a person."""
    from recovery_planner.domain.node_care import next_of

    until = life.probation_until if life.phase == "probation" else life.deadline_at
    return {
        "node_id": life.node_id,
        "phase": str(life.phase),
        "since_s": age_s(life.since, now),
        "rung": "" if life.rung is None else str(life.rung),
        "by": life.by,
        "why": life.reason.sentence,
        "rule_id": life.reason.rule_id,
        "next": next_of(life),
        "until": None if until is None else until.isoformat(),
        "story": life.story,
        "successor": life.successor,
        "listed": list(life.listed),
    }


def age_s(since: datetime | None, now: datetime) -> float | None:
    """Seconds from then to now."""
    return None if since is None else max(0.0, (now - since).total_seconds())


async def ask_planner(settings: BusSettings, question: dict[str, str]) -> dict[str, Any] | None:
    """The answer of the planner that leads; None: none does."""
    from service_kit.jetstream.bus import JetStreamBus
    from service_kit.jetstream.connection import connect

    connection = await connect(settings, name="phalanx-care")
    try:
        bus = JetStreamBus(connection, cluster=settings.cluster, source="/cli")
        said = await bus.ask(what="tend", key="leader", body=json.dumps(question).encode(), timeout_s=ASK_LIMIT_S)
    finally:
        await connection.close()
    return None if said is None else dict(json.loads(said))

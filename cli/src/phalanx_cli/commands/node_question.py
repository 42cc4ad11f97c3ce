"""What is known of nodes: the live answer of their host roles, and the open conditions that health-ingest keeps."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from health_ingest.application.ports import Record
    from health_ingest.domain.condition import Condition
    from service_kit.jetstream.connection import Connection
    from service_kit.settings import BusSettings

ASK_LIMIT_S = 3.0
"""A host role answers in milliseconds; one whose machine swaps may take a second."""
ASKED_AT_ONCE = 64
CONDITIONS_MAX = 50_000
NODES_MAX = 4_096


async def node_views(settings: BusSettings, node_id: str) -> list[dict[str, Any]]:
    """One node, or all that have a host role or ever had one, as plain data."""
    from service_kit.jetstream.connection import connect

    connection = await connect(settings, name="phalanx-node")
    try:
        names = [node_id] if node_id else await _known_nodes(connection, settings.cluster)
        by_node, problem = await _conditions(connection, settings.cluster, set(names))
        limit = asyncio.Semaphore(ASKED_AT_ONCE)
        return await asyncio.gather(
            *(_view(connection, settings.cluster, name, by_node.get(name, []), problem, limit) for name in names)
        )
    finally:
        await connection.close()


async def _view(
    connection: Connection,
    cluster: str,
    node_id: str,
    conditions: list[dict[str, Any]],
    problem: str,
    limit: asyncio.Semaphore,
) -> dict[str, Any]:
    from service_kit.errors import BusUnavailable
    from service_kit.jetstream.bus import JetStreamBus

    bus = JetStreamBus(connection, cluster=cluster)
    async with limit:
        try:
            raw = await bus.ask(what="host_health", key=node_id, timeout_s=ASK_LIMIT_S)
        except BusUnavailable as error:
            raw, silence = None, f"no answer: {error}"
        else:
            silence = "" if raw is not None else "no host role listens under this name"
    answer, problems = None, [problem] if problem else []
    if raw is not None:
        try:
            answer = json.loads(raw)
            if not isinstance(answer, dict) or not isinstance(answer.get("rows"), list):
                raise ValueError("not a table")
        except ValueError as error:
            answer, silence = None, f"an answer that is none: {error}"
    return {
        "node_id": node_id,
        "answers": answer is not None,
        "silence": silence,
        "host": answer,
        "conditions": conditions,
        "problems": problems,
    }


async def _known_nodes(connection: Connection, cluster: str) -> list[str]:
    """Nodes whose inventory lies in the stream: the newest of each is asked for with one request."""
    from fault_contracts.envelope import EnvelopeError
    from fault_contracts.inventory import InventoryReported
    from fault_contracts.registry import Stream, spec_of
    from service_kit.delivery import decode
    from service_kit.jetstream.direct_get import last_messages

    names = set()
    for stored in await last_messages(connection, Stream.HEALTH, [spec_of(InventoryReported).pattern(cluster)]):
        try:
            names.add(decode(stored.body, stored.subject).data.node_id)
        except EnvelopeError:
            continue  # health-ingest dead-letters it; `phalanx dlq` shows it
    return sorted(names)[:NODES_MAX]


async def _conditions(
    connection: Connection, cluster: str, names: set[str]
) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """Open conditions by node, and what kept us from knowing all of them."""
    from fault_contracts.registry import Bucket
    from health_ingest.adapters.kv_conditions import KvConditions
    from health_ingest.domain.condition import Phase
    from service_kit.clock import SystemClock
    from service_kit.errors import ServiceError
    from service_kit.jetstream.key_value import JetStreamKeyValue

    records = KvConditions(JetStreamKeyValue(connection, Bucket.CONDITIONS, cluster=cluster))
    found: dict[str, list[dict[str, Any]]] = {}
    now = SystemClock().now()
    unreadable = 0
    try:
        keys = (await records.keys())[:CONDITIONS_MAX]
    except ServiceError as error:
        return {}, f"the conditions cannot be read: {error}"
    limit = asyncio.Semaphore(ASKED_AT_ONCE)

    async def load(key: str) -> Record | None:
        async with limit:
            return await records.load(key)

    for record in await asyncio.gather(*(load(key) for key in keys), return_exceptions=True):
        if isinstance(record, BaseException):
            unreadable += 1
        elif record is not None and record.condition.phase is not Phase.CLEAR:
            node_id = record.condition.entity.node_id
            if node_id in names:
                found.setdefault(node_id, []).append(_shown(record.condition, now))
    return found, f"{unreadable} conditions cannot be read; another version wrote them" if unreadable else ""


def _shown(condition: Condition, now: datetime) -> dict[str, Any]:
    return {
        "component": condition.entity.component.value,
        "component_id": condition.entity.component_id,
        "check": condition.entity.check,
        "tier": condition.phase.value,
        "reason": condition.cause.detail if condition.cause is not None else "",
        "count": condition.count,
        "age_s": None if condition.raised_at is None else (now - condition.raised_at).total_seconds(),
        "condition_id": condition.condition_id,
    }

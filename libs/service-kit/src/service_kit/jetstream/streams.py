"""Streams and buckets as the registry wants them, created or updated by whoever starts first.

Raw JetStream requests, because nats-py's models do not know every option. Only the options named here are compared:
what a newer server adds by itself is left alone.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fault_contracts.registry import STREAMS, Bucket, StreamSpec
from service_kit.bus_access import KEEPER
from service_kit.errors import BusUnavailable, PermanentError, ServiceError
from service_kit.jetstream.connection import Connection, NoResponders
from service_kit.jetstream.server_answer import (
    NO_SPACE,
    STREAM_NAME_IN_USE,
    STREAM_NOT_FOUND,
    ServerRefusal,
    read_json,
)
from service_kit.logging import get_logger
from service_kit.settings import BusSettings

API_LIMIT_S = 5.0
"""One request to the API; several are tried until the connect limit."""
CONSUMERS_MAX = 256
"""Per stream: a few services, their tools, short-lived readers of keys. Agents need none (2.15 would allow 1,000)."""
BUCKET_BYTES_MAX = 256 << 20
"""A rank table of 4,096 ranks takes 160 KB, a condition 4 KB: room for a thousand jobs and 50,000 conditions."""
BUCKET_SHARE = 4
"""A bucket gets at most this part of a stream's limit: it keeps one value a key, a stream keeps history."""
BUCKET_VALUE_BYTES_MAX = 1_000_000
MESSAGE_BYTES_MAX = 1_040_000
"""Envelope limit (1,000,000) and headers, below max_payload (1,048,576)."""
_NS = 1_000_000_000

log = get_logger(__name__)


def stream_config(spec: StreamSpec, settings: BusSettings) -> dict[str, Any]:
    """The configuration of a registered stream."""
    config: dict[str, Any] = {
        "name": str(spec.name),
        "subjects": list(spec.subjects),
        "retention": "limits",
        "discard": "old",
        "storage": str(settings.stream_storage),
        "num_replicas": settings.stream_replicas,
        "max_age": int(spec.age_s_max * _NS),
        "max_bytes": min(spec.bytes_max, settings.stream_bytes_max),
        "max_msg_size": MESSAGE_BYTES_MAX,
        "max_consumers": CONSUMERS_MAX,
        "duplicate_window": int(spec.duplicate_window_s * _NS),
        "allow_direct": True,
        "allow_msg_ttl": True,
        "allow_atomic": spec.atomic,
    }
    if spec.republish is not None:
        config["republish"] = {"src": spec.republish[0], "dest": spec.republish[1]}
    return config


def bucket_config(bucket: Bucket, settings: BusSettings) -> dict[str, Any]:
    """The configuration of the stream under a bucket: one value per key, readable by `nats kv`."""
    return {
        "name": f"KV_{bucket}",
        "subjects": [f"$KV.{bucket}.>"],
        "retention": "limits",
        "discard": "new",
        "storage": str(settings.stream_storage),
        "num_replicas": settings.stream_replicas,
        "max_msgs_per_subject": 1,
        "duplicate_window": 120 * _NS,
        "max_bytes": min(BUCKET_BYTES_MAX, settings.stream_bytes_max // BUCKET_SHARE),
        "max_msg_size": MESSAGE_BYTES_MAX,
        "max_consumers": CONSUMERS_MAX,
        "allow_direct": True,
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
    }


async def ensure_streams(connection: Connection, settings: BusSettings) -> None:
    """Create or update every stream and bucket. Idempotent; several processes may do it at once.

    With identities in force only the planner may (service_kit.bus_access.KEEPER); the others wait until it did.

    Raises:
        PermanentError: one exists with options that cannot be changed, or the server has no room.
        BusUnavailable: JetStream does not answer.
    """
    configs = [stream_config(spec, settings) for spec in STREAMS]
    configs += [bucket_config(bucket, settings) for bucket in Bucket]
    may_change = connection.identity is None or connection.identity.name in ("", KEEPER)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + settings.connect_limit_s
    for config in configs:
        while True:
            try:
                await _ensure(connection, config, may_change=may_change)
                break
            except BusUnavailable as error:
                # A server that just started answers a moment later; a cluster needs an election first.
                if loop.time() > deadline_s:
                    raise
                log.warning("stream_not_ready", stream=config["name"], error=str(error))
                await asyncio.sleep(0.5)


async def _ensure(connection: Connection, wanted: dict[str, Any], *, may_change: bool = True) -> None:
    name = wanted["name"]
    try:
        info = await call_api(connection, f"STREAM.INFO.{name}", {})
    except ServerRefusal as refusal:
        if refusal.err_code != STREAM_NOT_FOUND:
            raise _explained(name, refusal) from refusal
        if not may_change:
            raise BusUnavailable(f"stream {name} is not there yet; {KEEPER} makes it") from refusal
        try:
            await call_api(connection, f"STREAM.CREATE.{name}", wanted)
        except ServerRefusal as lost:
            if lost.err_code != STREAM_NAME_IN_USE:
                raise _explained(name, lost) from lost
            info = await call_api(connection, f"STREAM.INFO.{name}", {})
        else:
            log.info("stream_created", stream=name)
            return
    there: dict[str, Any] = info["config"]
    differences = _differences(there, wanted)
    if not differences:
        return
    if not may_change:
        log.warning("stream_differs", stream=name, options=differences, help=f"{KEEPER} changes it when it starts")
        return
    try:
        await call_api(connection, f"STREAM.UPDATE.{name}", {**there, **wanted})
    except ServerRefusal as refusal:
        shown = ", ".join(f"{key} is {there.get(key)!r}, wanted {wanted[key]!r}" for key in differences)
        raise PermanentError(
            f"stream {name} exists with other options and cannot be updated ({refusal.description}): {shown}"
        ) from refusal
    log.info("stream_updated", stream=name, changed=differences)


def _differences(there: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Options that differ; an option the server leaves out has its zero value."""
    return [key for key, value in wanted.items() if there.get(key, type(value)()) != value]


def _explained(name: str, refusal: ServerRefusal) -> ServiceError:
    if refusal.err_code == NO_SPACE:
        return PermanentError(
            f"nats-server has no room to reserve for stream {name} ({refusal.description}); "
            "lower PHALANX_STREAM_BYTES_MAX or raise the server's max_file_store"
        )
    return refusal.as_failure()


async def call_api(connection: Connection, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    """One request to `$JS.API`.

    Raises:
        ServerRefusal: refused, with its code.
        BusUnavailable: no answer.
    """
    try:
        answer = await connection.request(f"$JS.API.{verb}", json.dumps(body).encode(), limit_s=API_LIMIT_S)
    except NoResponders as error:
        raise BusUnavailable(f"JetStream does not answer ({verb}): is it enabled on the server?") from error
    return read_json(answer, verb)

"""Durable consumers on the server: created or updated idempotently."""

from __future__ import annotations

from typing import Any

from service_kit.errors import BusUnavailable
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.server_answer import CONSUMER_NOT_FOUND, ServerRefusal
from service_kit.jetstream.streams import call_api
from service_kit.logging import get_logger

_START_OPTIONS = ("deliver_policy", "opt_start_seq", "opt_start_time")
"""Where a consumer began; it cannot be changed later, so what is there stays."""

RECLAIMS_MAX = 3
"""Resets at one place. A message that ended three readers is suspect; an honest crash seldom happens twice there."""
_RECLAIMED = "phalanx.reclaimed"
"""Metadata of a consumer: `<acknowledgement floor>:<resets>`."""

log = get_logger(__name__)


async def ensure_durable(
    connection: Connection,
    *,
    stream: str,
    name: str,
    filters: list[str],
    from_now: bool,
    ack_wait_s: float,
    ack_pending_max: int,
) -> None:
    """Create a durable pull consumer, or bring the one that is there to these options.

    Raises:
        PermanentError: the server refuses (no such stream, limits, permissions).
        BusUnavailable: no answer.
    """
    wanted: dict[str, Any] = {
        "durable_name": name,
        "name": name,
        "deliver_policy": "new" if from_now else "all",
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "ack_wait": int(ack_wait_s * 1e9),
        "max_deliver": -1,
        "max_ack_pending": ack_pending_max,
        "filter_subjects": sorted(filters),
    }
    try:
        there = await _config(connection, stream, name)
        if there is not None:
            wanted.update({key: there[key] for key in _START_OPTIONS if key in there})
            filters_there = there.get("filter_subjects") or [there.get("filter_subject", "")]
            same = all(there.get(key) == value for key, value in wanted.items() if key != "filter_subjects")
            if same and sorted(filters_there) == wanted["filter_subjects"]:
                return
        await call_api(connection, f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": wanted})
    except ServerRefusal as refusal:
        raise refusal.as_failure() from refusal
    log.info("consumer_created" if there is None else "consumer_updated", stream=stream, consumer=name)


async def reclaim_pending(connection: Connection, *, stream: str, name: str) -> None:
    """Reset a consumer to its acknowledgement floor (nats-server 2.14), so that what a dead reader held comes at once.

    A reset forgets how often a message was delivered, by which one that kills its readers is known. So the resets at
    one floor are counted in the consumer's metadata; after RECLAIMS_MAX of them the message comes after ack_wait, is
    counted by the server and ends as a dead letter.

    An older server does not know the request; then it comes after ack_wait, which is slower and loses nothing.
    """
    try:
        info = await call_api(connection, f"CONSUMER.INFO.{stream}.{name}", {})
        if not info["num_ack_pending"]:
            return
        config = info["config"]
        floor = str(info["ack_floor"]["stream_seq"])
        seen, _, times = config.get("metadata", {}).get(_RECLAIMED, "").partition(":")
        count = int(times) + 1 if seen == floor else 1
        if count > RECLAIMS_MAX:
            log.warning("consumer_reset_too_often", stream=stream, consumer=name, floor=floor)
            return
        config["metadata"] = {**config.get("metadata", {}), _RECLAIMED: f"{floor}:{count}"}
        await call_api(connection, f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})
        answer = await call_api(connection, f"CONSUMER.RESET.{stream}.{name}", {})
    except (ServerRefusal, BusUnavailable) as error:
        log.warning("consumer_not_reset", stream=stream, consumer=name, error=str(error))
        return
    log.info("consumer_reset", stream=stream, consumer=name, sequence=answer.get("reset_seq"), times=count)


async def _config(connection: Connection, stream: str, name: str) -> dict[str, Any] | None:
    try:
        info = await call_api(connection, f"CONSUMER.INFO.{stream}.{name}", {})
    except ServerRefusal as refusal:
        if refusal.err_code == CONSUMER_NOT_FOUND:
            return None
        raise
    config: dict[str, Any] = info["config"]
    return config

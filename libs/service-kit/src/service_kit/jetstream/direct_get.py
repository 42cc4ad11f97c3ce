"""Read stored messages straight from a stream: no consumer, one request.

A direct get may be answered by a replica that is a moment behind; whoever decides on what was read writes with
compare-and-set.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from service_kit.errors import BusUnavailable
from service_kit.jetstream.connection import Connection, NoResponders
from service_kit.jetstream.server_answer import status_of

GET_LIMIT_S = 5.0
BATCH = 256
"""Messages of one answer."""
SUBJECTS_MAX = 1_024
"""nats-server answers a multi-last get for at most this many subjects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A message as the stream keeps it."""

    subject: str
    sequence: int
    headers: dict[str, str]
    body: bytes


async def last_message(
    connection: Connection, stream: str, subject: str, *, limit_s: float = GET_LIMIT_S
) -> Stored | None:
    """The newest message on one subject, None when there is none.

    Raises:
        BusUnavailable: no answer.
        NoPermission: the server denies it.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + limit_s
    while True:
        try:
            answer = await connection.request(
                f"$JS.API.DIRECT.GET.{stream}.{subject}", limit_s=max(0.001, deadline_s - loop.time())
            )
            break
        except NoResponders as error:
            # After a restart the stream listens a moment later than the server answers.
            if loop.time() + 0.05 > deadline_s:
                raise BusUnavailable(f"stream {stream} does not answer") from error
            await asyncio.sleep(0.05)
    status = status_of(answer)
    if status == "404":
        return None
    if status is not None:
        raise BusUnavailable(f"direct get of {subject}: {status} {(answer.headers or {}).get('Description', '')}")
    return _stored(answer)


async def last_messages(
    connection: Connection, stream: str, subjects: list[str], *, up_to_sequence: int = 0
) -> list[Stored]:
    """The newest message of each subject that has one, oldest first: one request.

    `up_to_sequence`: as the stream was after this message; 0 is now.

    Raises:
        BusUnavailable: no answer, or not a whole one.
    """
    assert len(subjects) <= SUBJECTS_MAX, "more subjects than one answer carries"
    asked: dict[str, Any] = {"multi_last": subjects}
    if up_to_sequence:
        asked["up_to_seq"] = up_to_sequence
    return sorted(await _many(connection, stream, asked), key=lambda stored: stored.sequence)


async def stored_messages(connection: Connection, stream: str, subject: str, *, from_sequence: int) -> list[Stored]:
    """The next messages on a subject pattern, at most BATCH, in the order of the stream; empty at its end.

    Raises:
        BusUnavailable: no answer, or not a whole one.
    """
    return await _many(connection, stream, {"seq": max(1, from_sequence), "next_by_subj": subject, "batch": BATCH})


async def every_stored(connection: Connection, stream: str, subject: str) -> AsyncIterator[Stored]:
    """All messages on a subject pattern, oldest first, as many pages as there are.

    Raises:
        BusUnavailable: as `stored_messages`.
    """
    sequence = 1
    while page := await stored_messages(connection, stream, subject, from_sequence=sequence):
        for stored in page:
            yield stored
        sequence = page[-1].sequence + 1


async def _many(connection: Connection, stream: str, asked: dict[str, Any]) -> list[Stored]:
    """One direct get that is answered by several messages and an end marker."""
    if not await connection.wait_connected(GET_LIMIT_S):
        raise BusUnavailable(f"direct get of {stream}: no connection")
    inbox = connection.inbox()
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    found: list[Stored] = []

    async def on_answer(msg: Msg) -> None:
        status = status_of(msg)
        if status is None:
            found.append(_stored(msg))
        elif not done.done():
            done.set_result(status)

    subject = f"$JS.API.DIRECT.GET.{stream}"
    subscription = await connection.client.subscribe(inbox, cb=on_answer)
    try:
        async with asyncio.timeout(GET_LIMIT_S) as wait:
            with connection.denials.ending(subject, wait):
                await connection.client.publish(subject, json.dumps(asked).encode(), reply=inbox)
                status = await done
    except TimeoutError as error:
        connection.denials.raise_if_denied(subject, f"direct get of {stream}")
        raise BusUnavailable(f"direct get of {stream}: no whole answer within {GET_LIMIT_S:g} s") from error
    except NatsError as error:
        raise BusUnavailable(f"direct get of {stream}: {error}") from error
    finally:
        if not connection.client.is_closed:
            await subscription.unsubscribe()
    if status not in ("204", "404"):
        raise BusUnavailable(f"direct get of {stream}: status {status}")
    return found


def _stored(msg: Msg) -> Stored:
    headers = msg.headers or {}
    return Stored(
        subject=headers.get("Nats-Subject", ""),
        sequence=int(headers.get("Nats-Sequence", "0")),
        headers=headers,
        body=msg.data,
    )

"""Read stored messages straight from a stream: no consumer, one request.

A direct get may be answered by a replica that is a moment behind; whoever decides on what was read writes with
compare-and-set.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from service_kit.errors import BusUnavailable, PermanentError
from service_kit.jetstream.connection import Connection, NoResponders
from service_kit.jetstream.server_answer import status_of

GET_LIMIT_S = 5.0
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
        PermanentError: no permission.
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


async def last_messages(connection: Connection, stream: str, subjects: list[str]) -> list[Stored]:
    """The newest message of each subject that has one, oldest first: one request.

    Raises:
        BusUnavailable: no answer, or not a whole one.
    """
    assert len(subjects) <= SUBJECTS_MAX, "more subjects than one answer carries"
    if not await connection.wait_connected(GET_LIMIT_S):
        raise BusUnavailable("multi-last get: no connection")
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
        await connection.client.publish(subject, json.dumps({"multi_last": subjects}).encode(), reply=inbox)
        async with asyncio.timeout(GET_LIMIT_S):
            status = await done
    except TimeoutError as error:
        denied = connection.violation(subject)
        if denied is not None:
            raise PermanentError(f"multi-last get of {stream}: {denied}") from error
        raise BusUnavailable(f"multi-last get of {stream}: no whole answer within {GET_LIMIT_S:g} s") from error
    except NatsError as error:
        raise BusUnavailable(f"multi-last get of {stream}: {error}") from error
    finally:
        if not connection.client.is_closed:
            await subscription.unsubscribe()
    if status not in ("204", "404"):
        raise BusUnavailable(f"multi-last get of {stream}: status {status}")
    return sorted(found, key=lambda stored: stored.sequence)


def _stored(msg: Msg) -> Stored:
    headers = msg.headers or {}
    return Stored(
        subject=headers.get("Nats-Subject", ""),
        sequence=int(headers.get("Nats-Sequence", "0")),
        headers=headers,
        body=msg.data,
    )

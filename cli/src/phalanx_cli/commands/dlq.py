"""`phalanx dlq`: the messages that nobody could handle, newest last."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phalanx_cli.commands.bus_choice import chosen_bus
from phalanx_cli.commands.bus_question import answer, fail, hush_log
from phalanx_cli.foreign_text import print_lines, printable
from phalanx_cli.stack import developer

if TYPE_CHECKING:
    from service_kit.jetstream.direct_get import Stored
    from service_kit.settings import BusSettings

EXIT_NOT_RUNNING = developer.EXIT_NOT_RUNNING
LIMIT_DEFAULT = 100
UNREADABLE = "Unreadable"
_MESSAGE_SHOWN = 200
"""Characters of the sentence in the table; JSON has all of it."""


class Format(StrEnum):
    """How the letters are written."""

    TABLE = "table"
    JSON = "json"
    """One object a line."""


def dlq(
    output: Annotated[Format, typer.Option("--format", help="table, or json: one object a line.")] = Format.TABLE,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The newest so many.")] = LIMIT_DEFAULT,
    cluster: Annotated[str, typer.Option(help="Name of the cluster; default: PHALANX_CLUSTER, or the stack's.")] = "",
    data_dir: Annotated[Path, typer.Option(help="Folder of `phalanx up`.")] = developer.DEFAULT_DATA_DIR,
) -> None:
    """List dead letters: messages that nobody could handle, with who refused them and why.

    Asks the bus of NATS_URL, or the stack that `phalanx up` left running.

    Exit code 0 also when there are none; 3 nothing runs; 69 the bus does not answer.
    """
    raise typer.Exit(run_dlq(output=output, limit=limit, cluster=cluster, data_dir=data_dir))


def run_dlq(*, output: Format, limit: int, cluster: str, data_dir: Path) -> int:
    """Print the letters; returns the exit code."""
    return answer("dlq", lambda: _show(output, limit, cluster, data_dir))


def _show(output: Format, limit: int, cluster: str, data_dir: Path) -> int:
    settings = chosen_bus(cluster, data_dir)
    if settings is None:
        return fail("dlq", "no bus: set NATS_URL, or start a stack with `phalanx up`", EXIT_NOT_RUNNING)
    hush_log("dlq")
    letters = asyncio.run(_letters(settings, limit))
    print_lines(_as_json(letters) if output is Format.JSON else _as_table(letters))
    return developer.EXIT_OK


async def _letters(settings: BusSettings, limit: int) -> list[dict[str, Any]]:
    """The newest letters of the cluster, oldest first."""
    from fault_contracts.registry import Stream, stream_spec
    from service_kit.jetstream.connection import connect
    from service_kit.jetstream.direct_get import every_stored

    connection = await connect(settings, name="phalanx-dlq")
    newest: deque[dict[str, Any]] = deque(maxlen=limit)
    try:
        [subjects] = stream_spec(Stream.DLQ).subjects
        async for stored in every_stored(connection, Stream.DLQ, subjects):
            letter = _letter(stored, settings.cluster)
            if letter is not None:
                newest.append(letter)
    finally:
        await connection.close()
    return list(newest)


def _letter(stored: Stored, cluster: str) -> dict[str, Any] | None:
    """One letter as plain data; None when it is another cluster's. One that is garbage itself is shown as such."""
    from fault_contracts.envelope import EnvelopeError
    from fault_contracts.subjects import SubjectError, parse_subject
    from service_kit.delivery import decode

    try:
        if parse_subject(stored.subject).cluster != cluster:
            return None
        envelope = decode(stored.body, stored.subject)
    except (EnvelopeError, SubjectError) as error:
        return {
            "time": stored.headers.get("Nats-Time-Stamp"),
            "subject": stored.subject,
            "consumer": "phalanx-dlq",
            "error": UNREADABLE,
            "message": str(error),
            "stream": "DLQ",
            "stream_sequence": stored.sequence,
            "body": stored.body[:8_192].decode(errors="replace"),
        }
    letter = envelope.data.model_dump(mode="json")
    return {"time": letter.pop("refused_at"), **letter}


def _as_json(letters: list[dict[str, Any]]) -> Iterable[str]:
    return (json.dumps(letter) for letter in letters)


def _as_table(letters: list[dict[str, Any]]) -> Iterable[str]:
    if not letters:
        return ["no dead letters"]
    rows = [("TIME", "CONSUMER", "AT", "ERROR", "SUBJECT", "MESSAGE")]
    rows += [
        (
            str(letter["time"] or "?")[:19],
            str(letter["consumer"]),
            f"{letter['stream']}/{letter['stream_sequence']}" if letter["stream_sequence"] else "passing",
            str(letter["error"]),
            str(letter["subject"]),
            str(letter["message"])[:_MESSAGE_SHOWN],
        )
        for letter in letters
    ]
    # A foreign text must not move the cursor or make a second line.
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]

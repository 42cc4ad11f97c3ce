"""`phalanx hardware`: the devices that failed before, where they are, and who took them out of use."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phalanx_cli.commands.bus_choice import chosen_bus
from phalanx_cli.commands.bus_question import EXIT_UNAVAILABLE, answer, fail, hush_log, who
from phalanx_cli.foreign_text import print_lines, printable
from phalanx_cli.stack import developer

if TYPE_CHECKING:
    from service_kit.settings import BusSettings

EXIT_REFUSED = 1
ASK_LIMIT_S = 10.0
"""A quarantine looks for the device on every known node: a second for some thousands of them."""
_SPAN = re.compile(r"(\d{1,5})([hdw])")
_SECONDS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400}

hardware = typer.Typer(
    name="hardware",
    help="The bad-hardware ledger: devices with strikes, in quarantine or on probation. health-ingest keeps it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Device = Annotated[str, typer.Argument(help="gpu uuid, or GUID or MAC address of an adapter.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a device.")]
Cluster = Annotated[str, typer.Option(help="Name of the cluster; default: PHALANX_CLUSTER, or the stack's.")]
DataDir = Annotated[Path, typer.Option(help="Folder of `phalanx up`.")]
By = Annotated[str, typer.Option(help="Who asks; recorded. Default: user@host.")]
Why = Annotated[str, typer.Option("--reason", help="Why; recorded, and told to whoever is refused because of it.")]


class BadSpan(ValueError):
    """Not a time that --until or --for understands."""


@hardware.command("list")
def list_(as_json: AsJson = False, cluster: Cluster = "", data_dir: DataDir = developer.DEFAULT_DATA_DIR) -> None:
    """Devices that have something against them: what is held first, then by strikes that still count.

    Exit code 0 also when there are none; 3 nothing runs; 69 the bus or health-ingest does not answer.
    """
    raise typer.Exit(run_hardware({"verb": "list"}, as_json=as_json, cluster=cluster, data_dir=data_dir))


@hardware.command()
def show(
    device: Device, as_json: AsJson = False, cluster: Cluster = "", data_dir: DataDir = developer.DEFAULT_DATA_DIR
) -> None:
    """One device with its strikes. Exit code 1: nothing is held against it."""
    question = {"verb": "show", "device_id": device}
    raise typer.Exit(run_hardware(question, as_json=as_json, cluster=cluster, data_dir=data_dir))


@hardware.command()
def quarantine(
    device: Device,
    reason: Why,
    until: Annotated[
        str, typer.Option(help="End, as 12h, 3d, 2w or an ISO 8601 time; default: until it is released.")
    ] = "",
    by: By = "",
    as_json: AsJson = False,
    cluster: Cluster = "",
    data_dir: DataDir = developer.DEFAULT_DATA_DIR,
) -> None:
    """Take a device out of use: the node that has it is given no ranks. A job that runs there goes on to its next stop.

    A device that no node has reported is listed all the same, and refused when it turns up.
    """
    from service_kit.clock import SystemClock

    try:
        end = "" if not until else until_of(until, SystemClock().now()).isoformat()
    except BadSpan as error:
        raise typer.BadParameter(str(error), param_hint="--until") from None
    question = {"verb": "quarantine", "device_id": device, "reason": reason, "by": by or who(), "until": end}
    raise typer.Exit(run_hardware(question, as_json=as_json, cluster=cluster, data_dir=data_dir))


@hardware.command()
def release(
    device: Device,
    reason: Why,
    by: By = "",
    as_json: AsJson = False,
    cluster: Cluster = "",
    data_dir: DataDir = developer.DEFAULT_DATA_DIR,
) -> None:
    """Let a device go: from quarantine to probation, where one strike puts it back; from probation to freedom."""
    question = {"verb": "release", "device_id": device, "reason": reason, "by": by or who()}
    raise typer.Exit(run_hardware(question, as_json=as_json, cluster=cluster, data_dir=data_dir))


def until_of(text: str, now: datetime) -> datetime:
    """The end that --until names.

    Raises:
        BadSpan: neither a span nor a time.
    """
    span = _SPAN.fullmatch(text)
    if span is not None:
        return now + timedelta(seconds=int(span[1]) * _SECONDS[span[2]])
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise BadSpan(f"{text!r} is neither a span (12h, 3d, 2w) nor an ISO 8601 time") from None
    # A person means the clock on the wall.
    end = end.astimezone()
    if end <= now:
        raise BadSpan(f"{text} is over")
    return end


def run_hardware(question: dict[str, str], *, as_json: bool, cluster: str, data_dir: Path) -> int:
    """Ask the ledger and print what it says; returns the exit code."""
    return answer("hardware", lambda: _run(question, as_json, cluster, data_dir))


def _run(question: dict[str, str], as_json: bool, cluster: str, data_dir: Path) -> int:
    # Imported here: `phalanx --help` must not wait for the view.
    from phalanx_cli.commands.hardware_view import entry_lines, list_lines

    settings = chosen_bus(cluster, data_dir)
    if settings is None:
        text = "no bus: set NATS_URL, or start a stack with `phalanx up`"
        return fail("hardware", text, developer.EXIT_NOT_RUNNING)
    hush_log("hardware")
    said = asyncio.run(_ask(settings, question))
    if said is None:
        return fail("hardware", f"nobody keeps a ledger in cluster {settings.cluster!r}: does health-ingest run?",
                    EXIT_UNAVAILABLE)  # fmt: skip
    if not said["ok"]:
        return fail("hardware", str(said["error"]), EXIT_REFUSED)
    entries: list[dict[str, Any]] = said["entries"]
    if as_json:
        lines = [json.dumps(entry) for entry in entries]
    elif question["verb"] == "list":
        lines = list_lines(entries)
    else:
        lines = [line for entry in entries for line in entry_lines(entry)]
        if question["verb"] != "show" and not said["changed"]:
            lines.insert(0, "it was so already; nothing has changed")
    print_lines(map(printable, lines))
    return developer.EXIT_OK


async def _ask(settings: BusSettings, question: dict[str, str]) -> dict[str, Any] | None:
    """The ledger's answer; None: nobody keeps one."""
    from service_kit.jetstream.bus import JetStreamBus
    from service_kit.jetstream.connection import connect

    connection = await connect(settings, name="phalanx-hardware")
    try:
        bus = JetStreamBus(connection, cluster=settings.cluster, source="/cli")
        what = "hardware" if question["verb"] in ("list", "show") else "hardware_change"
        said = await bus.ask(what=what, key="ledger", body=json.dumps(question).encode(), timeout_s=ASK_LIMIT_S)
    finally:
        await connection.close()
    return None if said is None else dict(json.loads(said))

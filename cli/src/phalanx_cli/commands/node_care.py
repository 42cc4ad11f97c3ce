"""`phalanx quarantine`, `phalanx drain` and `phalanx release`: a person takes a node out of use, or lets it go."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from phalanx_cli.commands.bus_choice import chosen_bus
from phalanx_cli.commands.bus_question import EXIT_UNAVAILABLE, answer, fail, hush_log, who
from phalanx_cli.foreign_text import print_lines, printable
from phalanx_cli.stack import developer

EXIT_REFUSED = 1

Node = Annotated[str, typer.Argument(help="Name of the machine; `phalanx nodes` lists them.")]
Why = Annotated[str, typer.Option("--reason", help="Why; recorded, and told to the jobs that have an agent there.")]
By = Annotated[str, typer.Option(help="Who asks; recorded. Default: user@host.")]
AsJson = Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")]
Cluster = Annotated[str, typer.Option(help="Name of the cluster; default: PHALANX_CLUSTER, or the stack's.")]
DataDir = Annotated[Path, typer.Option(help="Folder of `phalanx up`.")]


def quarantine(
    node: Node,
    reason: Why,
    by: By = "",
    as_json: AsJson = False,
    cluster: Cluster = "",
    data_dir: DataDir = developer.DEFAULT_DATA_DIR,
) -> None:
    """Give a node no ranks any more. Those that run there go on to their job's next stop.

    It stays so until it is released; the planner does nothing else to it.

    Exit code 0 done; 1 refused, with the reason; 3 nothing runs; 69 the bus or the planner does not answer.
    """
    raise typer.Exit(run_order("quarantine", node, reason, by, as_json=as_json, cluster=cluster, data_dir=data_dir))


def drain(
    node: Node,
    reason: Why,
    within: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=604_800.0,
            metavar="S",
            help="Stop the jobs there by plan, after their next checkpoint, at the latest after S seconds. Without it "
            "they go on to their next stop.",
        ),
    ] = None,
    by: By = "",
    as_json: AsJson = False,
    cluster: Cluster = "",
    data_dir: DataDir = developer.DEFAULT_DATA_DIR,
) -> None:
    """As quarantine, and `phalanx nodes` says when no ranks are left there: then the node is yours.

    A stop by --within is not charged to a job's restarts; one without a spare then waits for a node as for any other.

    Exit codes as `phalanx quarantine`'s.
    """
    code = run_order("drain", node, reason, by, as_json=as_json, cluster=cluster, data_dir=data_dir, within_s=within)
    raise typer.Exit(code)


def release(
    node: Node,
    reason: Why,
    by: By = "",
    as_json: AsJson = False,
    cluster: Cluster = "",
    data_dir: DataDir = developer.DEFAULT_DATA_DIR,
) -> None:
    """Let a node go: quarantined, listed, replaced or on probation. With a ladder, the gate comes first.

    A device of it that the ledger holds is released by `phalanx hardware release`.

    Exit codes as `phalanx quarantine`'s.
    """
    raise typer.Exit(run_order("release", node, reason, by, as_json=as_json, cluster=cluster, data_dir=data_dir))


def run_order(
    verb: str,
    node: str,
    reason: str,
    by: str,
    *,
    as_json: bool,
    cluster: str,
    data_dir: Path,
    within_s: float | None = None,
) -> int:
    """Ask the planner, print what it says; returns the exit code."""
    question = {"verb": verb, "node_id": node, "by": by or who(), "reason": reason}
    if within_s is not None:
        question["within_s"] = f"{within_s:g}"
    return answer(verb, lambda: _run(verb, question, as_json, cluster, data_dir))


def _run(verb: str, question: dict[str, str], as_json: bool, cluster: str, data_dir: Path) -> int:
    # Imported here: `phalanx --help` must not wait for the bus client.
    from phalanx_cli.commands.care_question import ask_planner

    settings = chosen_bus(cluster, data_dir)
    if settings is None:
        return fail(verb, "no bus: set NATS_URL, or start a stack with `phalanx up`", developer.EXIT_NOT_RUNNING)
    hush_log(verb)
    said = asyncio.run(ask_planner(settings, question))
    if said is None:
        return fail(verb, f"no planner leads in cluster {settings.cluster!r}", EXIT_UNAVAILABLE)
    if as_json:
        print_lines([json.dumps(said)])
    if not said["ok"]:
        return fail(verb, str(said["error"]), EXIT_REFUSED)
    if not as_json:
        print_lines([printable(str(said["sentence"]))])
    return developer.EXIT_OK

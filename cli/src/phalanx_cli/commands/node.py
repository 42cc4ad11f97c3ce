"""`phalanx node NAME` and `phalanx nodes`: every signal of a machine, with age and source; and the list of machines."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx_cli.commands.bus_choice import buses
from phalanx_cli.commands.bus_question import answer, fail, hush_log
from phalanx_cli.foreign_text import print_lines, printable
from phalanx_cli.stack import developer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a node, with every row and number.")]
Cluster = Annotated[str, typer.Option(help="Name of the cluster; default: PHALANX_CLUSTER, or the stack's.")]
DataDir = Annotated[Path, typer.Option(help="Folder of `phalanx up`, or of the runs.")]


def node(
    node_id: Annotated[str, typer.Argument(help="Name of the machine, as its host role and its agents use it.")],
    as_json: AsJson = False,
    cluster: Cluster = "",
    data_dir: DataDir = developer.DEFAULT_DATA_DIR,
) -> None:
    """Show every signal of a machine: ok, bad or unknown, with age and source, and its open conditions.

    Asks the machine's host role (`phalanx host`) over the bus. Nobody answers: everything is unknown, and only what
    health-ingest still holds against it is shown.

    Exit code 0 all is well; 1 something is bad, or a condition is open; 3 something is unknown, or nobody answers;
    69 the bus does not answer.
    """
    raise typer.Exit(run_node(node_id, as_json=as_json, cluster=cluster, data_dir=data_dir, command="node"))


def nodes(
    as_json: AsJson = False,
    cluster: Cluster = "",
    data_dir: DataDir = developer.DEFAULT_DATA_DIR,
) -> None:
    """List the machines that have a host role, or had one: health, bad and unknown signals, open conditions.

    Below it: what the planner does about nodes (phase, rung, why, what comes next), and the breaker where it is open.

    Exit code as `phalanx node`'s, the worst of all machines.
    """
    raise typer.Exit(run_node("", as_json=as_json, cluster=cluster, data_dir=data_dir, command="nodes"))


def run_node(node_id: str, *, as_json: bool, cluster: str, data_dir: Path, command: str) -> int:
    """Print the machine or the machines; returns the exit code."""
    return answer(command, lambda: _show(node_id, as_json, cluster, data_dir, command))


def _show(node_id: str, as_json: bool, cluster: str, data_dir: Path, command: str) -> int:
    # Imported here: `phalanx --help` must not wait for the bus client.
    from phalanx_cli.commands.care_question import care_of
    from phalanx_cli.commands.care_view import breaker_lines, care_lines, one_lines
    from phalanx_cli.commands.node_question import node_views
    from phalanx_cli.commands.node_view import exit_code, list_lines, node_lines, verdict

    found = buses(cluster, data_dir)
    if not found:
        text = "no bus: set NATS_URL, start `phalanx up`, or give the --data-dir of a run"
        return fail(command, text, developer.EXIT_NOT_RUNNING)
    hush_log(command)
    views: list[dict[str, Any]] = []
    cares = []
    for settings in found:
        care = asyncio.run(care_of(settings, node_id))
        cares.append(care)
        nodes = care["nodes"]
        views += [{**view, "care": nodes.get(view["node_id"])} for view in asyncio.run(node_views(settings, node_id))]
    if as_json:
        lines = [json.dumps({**view, "health": verdict(view)}) for view in views]
        shown = {view["node_id"] for view in views}
        others = [one for care in cares for one in care["nodes"].values() if one["node_id"] not in shown]
        lines += [json.dumps({"node_id": one["node_id"], "care": one}) for one in others]
    elif node_id:
        lines = [line for view in views for line in node_lines(view)]
        lines += [line for care in cares for line in breaker_lines(care)]
        lines += [line for view in views if view["care"] is not None for line in one_lines(view["care"])]
    else:
        lines = [*list_lines(views), *(line for care in cares for line in care_lines(care))]
    print_lines(map(printable, lines))
    return exit_code(views)

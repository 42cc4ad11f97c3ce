"""`phalanx job`: where a job stands, and its journal as a story: each incident, why it was so, and what it cost."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phalanx_cli.commands.bus_choice import buses
from phalanx_cli.commands.bus_question import answer, fail, hush_log
from phalanx_cli.foreign_text import print_lines, printable
from phalanx_cli.stack import developer

if TYPE_CHECKING:
    from service_kit.settings import BusSettings

EXIT_NO_JOB = 1
INCIDENTS_DEFAULT = 10
EPILOG = """\
Examples:

  phalanx job                             all jobs

  phalanx job llm                         where job llm stands, and what befell it

  phalanx job llm --incidents 100         more of its past

  phalanx job llm --format json | jq '.journal.runs[-1].incidents[-1].account'
"""


class Format(StrEnum):
    """How a job is written."""

    TEXT = "text"
    JSON = "json"
    """One object a job and a line."""


def job(
    job_id: Annotated[str, typer.Argument(help="Name of the job; without it, all jobs are listed.")] = "",
    output: Annotated[
        Format, typer.Option("--format", help="text, or json: one object a job, with every rank and entry.")
    ] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    incidents: Annotated[
        int, typer.Option(min=0, max=100_000, help="The newest so many of each run are told.")
    ] = INCIDENTS_DEFAULT,
    cluster: Annotated[str, typer.Option(help="Name of the cluster; default: PHALANX_CLUSTER, or the stack's.")] = "",
    data_dir: Annotated[
        Path, typer.Option(help="Folder of `phalanx up`, or of the runs.")
    ] = developer.DEFAULT_DATA_DIR,
) -> None:
    """Show where a job stands, and tell its journal: each incident with evidence, verdict, plan, phases and cost.

    What is missing in the record is shown as a hole.

    Asks the bus of NATS_URL, or the stack that `phalanx up` left running, or every `phalanx run` on the data folder.

    Exit code 0; 1 no such job; 3 nothing runs; 69 the bus does not answer.
    """
    wanted = Wanted(job_id=job_id, as_json=as_json or output is Format.JSON, incidents=incidents)
    raise typer.Exit(run_job(wanted, cluster=cluster, data_dir=data_dir))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be shown; without a job_id all jobs are listed."""

    job_id: str = ""
    as_json: bool = False
    incidents: int = INCIDENTS_DEFAULT


def run_job(wanted: Wanted, *, cluster: str, data_dir: Path) -> int:
    """Print the job or the jobs; returns the exit code."""
    return answer("job", lambda: _show(wanted, cluster=cluster, data_dir=data_dir))


def _show(wanted: Wanted, *, cluster: str, data_dir: Path) -> int:
    found = buses(cluster, data_dir)
    if not found:
        text = "no bus: set NATS_URL, start `phalanx up`, or give the --data-dir of a run"
        return fail("job", text, developer.EXIT_NOT_RUNNING)
    hush_log("job")
    lines = _told(wanted, found) if wanted.job_id else _listed(wanted, found)
    if not lines:
        return fail("job", f"no job {wanted.job_id!r} is known; `phalanx job` lists those that are", EXIT_NO_JOB)
    print_lines(map(printable, lines))
    return developer.EXIT_OK


def _told(wanted: Wanted, found: list[BusSettings]) -> list[str]:
    """One job; none where no bus knows it."""
    # Imported here: `phalanx --help` must not wait for the bus client.
    from phalanx_cli.commands.job_story import job_story

    stories = [asyncio.run(job_story(settings, wanted.job_id, incidents=wanted.incidents)) for settings in found]
    known = [story for story in stories if story is not None]
    if wanted.as_json:
        return [json.dumps(story.data()) for story in known]
    return [line for story in known for line in story.lines()]


def _listed(wanted: Wanted, found: list[BusSettings]) -> list[str]:
    from phalanx_cli.commands.job_records import job_views

    views = [view for settings in found for view in asyncio.run(job_views(settings, ""))]
    return [json.dumps(view) for view in views] if wanted.as_json and views else _list(views)


def _list(views: list[dict[str, Any]]) -> list[str]:
    from phalanx_cli.commands.job_view import table

    if not views:
        return ["no jobs"]
    rows = [
        (
            view["job_id"],
            view["phase"] if view["ending"] is None else view["ending"]["outcome"],
            view["topology_version"],
            view["nnodes"],
            view["world_size"],
            "?" if view["step"] is None else view["step"],
            "-" if view["checkpoint"] is None else view["checkpoint"]["step"],
            view["restarts"]["done"],
        )
        for view in views
    ]
    head = ("JOB", "PHASE", "VERSION", "NODES", "RANKS", "STEP", "CHECKPOINT", "RESTARTS")
    return list(table(head, rows))

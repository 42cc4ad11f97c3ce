"""`phalanx job`: where a job stands: phase, nodes, ranks and labels, last step, checkpoint, incident, restarts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phalanx_cli.commands.bus_choice import buses
from phalanx_cli.commands.bus_question import answer, fail, hush_log
from phalanx_cli.foreign_text import print_lines, printable
from phalanx_cli.stack import developer

if TYPE_CHECKING:
    from recovery_planner.domain.gang import Gang
    from service_kit.jetstream.connection import Connection
    from service_kit.settings import BusSettings

EXIT_NO_JOB = 1
JOBS_SHOWN = 1_000


def job(
    job_id: Annotated[str, typer.Argument(help="Name of the job; without it, all jobs are listed.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a job, with every rank.")] = False,
    cluster: Annotated[str, typer.Option(help="Name of the cluster; default: PHALANX_CLUSTER, or the stack's.")] = "",
    data_dir: Annotated[
        Path, typer.Option(help="Folder of `phalanx up`, or of the runs.")
    ] = developer.DEFAULT_DATA_DIR,
) -> None:
    """Show where a job stands: nodes, ranks with labels, last step, checkpoint, incident, restarts left.

    Asks the bus of NATS_URL, or the stack that `phalanx up` left running, or every `phalanx run` on the data folder.

    Exit code 0; 1 no such job; 3 nothing runs; 69 the bus does not answer.
    """
    raise typer.Exit(run_job(job_id, as_json=as_json, cluster=cluster, data_dir=data_dir))


def run_job(job_id: str, *, as_json: bool, cluster: str, data_dir: Path) -> int:
    """Print the job or the jobs; returns the exit code."""
    return answer("job", lambda: _show(job_id, as_json=as_json, cluster=cluster, data_dir=data_dir))


def _show(job_id: str, *, as_json: bool, cluster: str, data_dir: Path) -> int:
    # Imported here: `phalanx --help` must not wait for the bus client.
    from phalanx_cli.commands.job_view import job_lines

    found = buses(cluster, data_dir)
    if not found:
        text = "no bus: set NATS_URL, start `phalanx up`, or give the --data-dir of a run"
        return fail("job", text, developer.EXIT_NOT_RUNNING)
    hush_log("job")
    views = [view for settings in found for view in asyncio.run(job_views(settings, job_id))]
    if job_id and not views:
        return fail("job", f"no job {job_id!r} is known; `phalanx job` lists those that are", EXIT_NO_JOB)
    if as_json:
        lines = [json.dumps(view) for view in views]
    elif job_id:
        lines = [line for view in views for line in job_lines(view)]
    else:
        lines = _list(views)
    print_lines(map(printable, lines))
    return developer.EXIT_OK


async def job_views(settings: BusSettings, job_id: str) -> list[dict[str, Any]]:
    """The job, or all jobs of a cluster by name."""
    from fault_contracts.registry import Bucket
    from phalanx_cli.commands.job_view import job_view
    from recovery_planner.adapters.kv_gangs import KvCheckpoints, KvGangs
    from recovery_planner.domain.checkpoint_history import CheckpointHistory
    from service_kit.clock import SystemClock
    from service_kit.jetstream.connection import connect
    from service_kit.jetstream.key_value import JetStreamKeyValue

    connection = await connect(settings, name="phalanx-job")
    try:
        gangs = KvGangs(JetStreamKeyValue(connection, Bucket.GANGS, cluster=settings.cluster))
        checkpoints = KvCheckpoints(JetStreamKeyValue(connection, Bucket.CHECKPOINTS, cluster=settings.cluster))
        views = []
        for name in [job_id] if job_id else sorted(await gangs.job_ids())[:JOBS_SHOWN]:
            stored = await gangs.load(name)
            if stored is None:
                continue
            history = await checkpoints.load(name)
            view = job_view(
                stored.gang,
                CheckpointHistory() if history is None else history.history,
                step=await _last_step(connection, settings.cluster, stored.gang),
                now=SystemClock().now(),
            )
            views.append(view)
    finally:
        await connection.close()
    return views


async def _last_step(connection: Connection, cluster: str, gang: Gang) -> int | None:
    """The newest step that every node of the present generation reported; the record itself is not written for it."""
    from fault_contracts.agent import StepReported
    from fault_contracts.envelope import EnvelopeError
    from fault_contracts.registry import Stream, spec_of
    from service_kit.delivery import decode
    from service_kit.jetstream.direct_get import SUBJECTS_MAX, last_messages

    spec = spec_of(StepReported)
    subjects = [str(spec.subject(cluster, node)) for node in gang.nodes[:SUBJECTS_MAX]]
    steps = []
    for stored in await last_messages(connection, Stream.AGENTS, subjects) if subjects else []:
        try:
            report = decode(stored.body, stored.subject).data
        except EnvelopeError:
            continue  # the auditor dead-letters it; `phalanx dlq` shows it
        if report.job_id == gang.job_id and report.topology_version == gang.table.topology_version:
            steps.append(int(report.step))
    return min(steps, default=None)


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

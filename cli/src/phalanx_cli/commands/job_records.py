"""What the planner's records say of jobs, as plain data. Reads only."""

from __future__ import annotations

from typing import Any

from fault_contracts.agent import StepReported
from fault_contracts.envelope import EnvelopeError
from fault_contracts.registry import Bucket, Stream, spec_of
from phalanx_cli.commands.job_view import job_view
from recovery_planner.adapters.kv_gangs import KvCheckpoints, KvGangs
from recovery_planner.domain.checkpoint_history import CheckpointHistory
from recovery_planner.domain.gang import Gang
from service_kit.clock import SystemClock
from service_kit.delivery import decode
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.direct_get import SUBJECTS_MAX, last_messages
from service_kit.jetstream.key_value import JetStreamKeyValue
from service_kit.settings import BusSettings

JOBS_SHOWN = 1_000


async def job_views(settings: BusSettings, job_id: str) -> list[dict[str, Any]]:
    """The job, or all jobs of a cluster by name."""
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

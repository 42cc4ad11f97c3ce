"""The planner's wiring, top to bottom. `python -m recovery_planner.main`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

from fault_contracts.cluster_policy import ClusterPolicy
from fault_contracts.registry import Bucket
from recovery_planner.adapters.journal_metrics import JournalCounters
from recovery_planner.adapters.kv_gangs import KvCheckpoints, KvGangs
from recovery_planner.adapters.kv_lives import KvNodeLives
from recovery_planner.adapters.kv_nodes import KvNodeStandings
from recovery_planner.adapters.node_metrics import NodeGauges
from recovery_planner.adapters.pools import pool_of
from recovery_planner.application.planner import World, assemble
from recovery_planner.settings import PlannerSettings
from service_kit.cluster_policy_file import read_cluster_policy
from service_kit.errors import PermanentError
from service_kit.failpoints import Failpoints
from service_kit.lifecycle import Service, run_service
from service_kit.yaml_fields import PolicyRefused

NAME = "recovery-planner"


async def wire(service: Service[PlannerSettings]) -> None:
    """Build the use cases and begin to lead, or to stand by."""
    settings = service.settings
    cluster_policy = _cluster_policy(settings.policy_file)
    nodes = KvNodeStandings(service.key_value(Bucket.NODES))
    world = World(
        bus=service.bus,
        clock=service.clock,
        gangs=KvGangs(service.key_value(Bucket.GANGS)),
        checkpoints=KvCheckpoints(service.key_value(Bucket.CHECKPOINTS)),
        nodes=nodes,
        lives=KvNodeLives(service.key_value(Bucket.REMEDIES)),
        pool=pool_of(cluster_policy.pool, settings.policy_file, service.clock, nodes),
        figures=NodeGauges(),
        journal_figures=JournalCounters(),
        failpoints=Failpoints(settings.failpoint),
        instance_id=f"{socket.gethostname()}/{os.getpid()}/{service.clock.now().isoformat()}",
    )
    planner = assemble(
        world,
        policy=settings.policy(),
        patience=settings.patience(),
        ended_kept_s=settings.ended_kept_s,
        fit_demanded=settings.fit_demanded,
        cluster_policy=cluster_policy,
    )
    service.connection.on_reconnected(planner.watch.after_reconnect)
    service.add_check("duties", planner.duties.failed)
    known = asyncio.Event()
    service.spawn(planner.lead.run(planner.duties, known), name="lead")
    await known.wait()


def _cluster_policy(path: Path | None) -> ClusterPolicy:
    """The operator's word; a planner that does not understand it does not start.

    Raises:
        PermanentError: with file, line and reason.
    """
    if path is None:
        return ClusterPolicy()
    try:
        return read_cluster_policy(path)
    except PolicyRefused as error:
        raise PermanentError(f"PHALANX_POLICY: {error}") from error


def main() -> int:
    """Entry point; returns the exit code."""
    return run_service(NAME, PlannerSettings, wire)


if __name__ == "__main__":
    sys.exit(main())

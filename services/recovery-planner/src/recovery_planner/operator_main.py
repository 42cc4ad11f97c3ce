"""phalanx-operator: the one process that writes to Kubernetes. `python -m recovery_planner.operator_main`.

It reads the planner's records and decides nothing of a recovery. One replica works, the others wait for its lease.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from functools import partial

from fault_contracts.hardware import NodeStandingChanged
from fault_contracts.recovery import (
    GangFormed,
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    RecoveryPlanned,
    TrainingResumed,
)
from fault_contracts.registry import Bucket
from fault_contracts.remediation import NodeTended
from recovery_planner.adapters.json_posts import HttpReplacementHook, HttpSignalDoor
from recovery_planner.adapters.kube_api import KubernetesApi, configured
from recovery_planner.adapters.kube_policy_check import LauncherPolicyCheck
from recovery_planner.adapters.kv_gangs import KvGangs
from recovery_planner.adapters.kv_lives import KvNodeLives
from recovery_planner.adapters.kv_nodes import KvNodeStandings
from recovery_planner.application.carry_out_job import JobHand
from recovery_planner.application.forward_conditions import ForwardConditions
from recovery_planner.application.hold_lease import Lease
from recovery_planner.application.kube_ports import KubeApi
from recovery_planner.application.look_at_job import JobEye, RecordedGangs
from recovery_planner.application.mirror_nodes import MirrorNodes
from recovery_planner.application.node_knowledge import NodeKnowledge
from recovery_planner.application.reconcile_jobs import JobOperator
from recovery_planner.application.retire_nodes import RetireNodes
from recovery_planner.domain.kube_job_objects import LauncherPlace
from recovery_planner.settings import OperatorSettings
from service_kit.lifecycle import Service, run_service
from service_kit.logging import get_logger
from service_kit.ports import Delivery

NAME = "phalanx-operator"
HEARD = (GangFormed, IncidentOpened, RecoveryPlanned, TrainingResumed, IncidentClosed, JobEnded)
"""What the planner says that changes a status: only a hint to look, for the record is what counts."""

log = get_logger(__name__)


async def wire(service: Service[OperatorSettings]) -> None:
    """Connect to the API server and stand for the lease."""
    settings = service.settings
    kubeconfig = None if settings.kubeconfig is None else str(settings.kubeconfig)
    api = KubernetesApi(await configured(kubeconfig))
    lease = Lease(
        api=api,
        clock=service.clock,
        namespace=settings.lease_namespace,
        name=NAME,
        identity=f"{socket.gethostname()}/{os.getpid()}/{service.clock.now().isoformat()}",
    )
    service.spawn(_stand(service, api, lease), name="operator")


async def _stand(service: Service[OperatorSettings], api: KubernetesApi, lease: Lease) -> None:
    try:
        await lease.hold(partial(_work, service, api))
    finally:
        await api.close()


async def _work(service: Service[OperatorSettings], api: KubeApi) -> None:
    """While the lease is ours. Every lead begins with fresh copies: what others wrote meanwhile is not known here."""
    async with asyncio.TaskGroup() as parts:
        parts.create_task(asyncio.Event().wait())  # also with nothing to do, the lease is held
        if service.settings.jobs:
            parts.create_task(_look_after_jobs(service, api))
        if service.settings.nodes:
            parts.create_task(_look_after_nodes(service, api))


async def _look_after_jobs(service: Service[OperatorSettings], api: KubeApi) -> None:
    operator = job_operator(service, api)

    async def hear(delivery: Delivery) -> None:
        operator.heard_of(str(delivery.envelope.data.job_id))

    listening = await service.bus.listen(messages=HEARD, handler=hear)
    try:
        await operator.run()
    finally:
        await listening.stop()


async def _look_after_nodes(service: Service[OperatorSettings], api: KubeApi) -> None:
    settings, clock = service.settings, service.clock
    woken = asyncio.Event()
    knowledge = NodeKnowledge(
        KvNodeStandings(service.key_value(Bucket.NODES)),
        KvNodeLives(service.key_value(Bucket.REMEDIES)),
        clock,
        changed=woken.set,
    )
    door = HttpSignalDoor(settings.signals_url, settings.signals_token.get_secret_value())
    hook = HttpReplacementHook(settings.replacement_url, settings.replacement_token.get_secret_value())
    mirror = MirrorNodes(
        api=api,
        bus=service.bus,
        clock=clock,
        knowledge=knowledge,
        rules=settings.mirror_rules(),
        labels=settings.node_labels,
        forward=ForwardConditions(door, clock) if settings.signals_url else None,
        retire=RetireNodes(api, clock, settings.retire_rules(), hook=hook),
        woken=woken,
    )
    listening = await service.bus.listen(messages=(NodeStandingChanged, NodeTended), handler=knowledge.hear)
    try:
        await mirror.run()
    finally:
        await listening.stop()
        await door.close()
        await hook.close()


def job_operator(service: Service[OperatorSettings], api: KubeApi) -> JobOperator:
    """The operator of TrainingJobs."""
    settings = service.settings
    place = LauncherPlace(
        nats_url=settings.launcher_nats_url or settings.nats_url,
        cluster=settings.cluster,
        secret=settings.launcher_secret,
    )
    gangs = RecordedGangs(store=KvGangs(service.key_value(Bucket.GANGS)))
    return JobOperator(
        eye=JobEye(api=api, clock=service.clock, gangs=gangs, policy_check=LauncherPolicyCheck()),
        hand=JobHand(api=api, clock=service.clock, place=place),
        clock=service.clock,
    )


def main() -> int:
    """Entry point; returns the exit code."""
    return run_service(NAME, OperatorSettings, wire, keeps_streams=False)


if __name__ == "__main__":
    sys.exit(main())

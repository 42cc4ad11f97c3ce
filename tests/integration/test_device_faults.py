"""A device fails under a running gang: real planner, judge and ledger on a real nats-server, scripted agents."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest
import pytest_asyncio
from planner_cast import PlannerProcess, ScriptedAgent, agents

from fault_contracts.agent import JobSpec
from fault_contracts.commands import StartWorkers, StopWorkers
from fault_contracts.envelope import seal
from fault_contracts.faults import Action, Attribution, FaultClassified
from fault_contracts.health import Component, ConditionRaised, DeviceEvidence, Tier
from fault_contracts.payload import Payload
from fault_contracts.recovery import IncidentOpened, NodeFaulted, RecoveryPlanned
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.ports import Delivery

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
SPEC = JobSpec(nnodes=2, nproc_per_node=2)
LIMIT_S = 60.0

SERVICES = ("recovery_planner.main", "fault_classifier.main", "health_ingest.main")
P = TypeVar("P", bound=Payload)


class Ear:
    """Hears what is published, and waits for it."""

    def __init__(self) -> None:
        self.heard: list[Payload] = []
        self._changed = asyncio.Event()

    async def take(self, delivery: Delivery) -> None:
        self.heard.append(delivery.envelope.data)
        self._changed.set()

    def all(self, kind: type[P]) -> list[P]:
        return [each for each in self.heard if isinstance(each, kind)]

    async def first(self, kind: type[P]) -> P:
        async with asyncio.timeout(LIMIT_S):
            while not (found := self.all(kind)):
                self._changed.clear()
                await self._changed.wait()
        return found[0]


@pytest_asyncio.fixture
async def cast(
    nats_server: NatsServer, unique_name: str, tmp_path: Path
) -> AsyncIterator[tuple[list[ScriptedAgent], Ear]]:
    """Two agents of a gang and a spare, and the services."""
    async with agents(nats_server.url, unique_name, "a", "b", "s", spec=SPEC) as made:
        processes = [
            PlannerProcess(
                nats_url=nats_server.url,
                cluster=unique_name,
                folder=tmp_path,
                name=module.partition(".")[0],
                module=module,
            )
            for module in SERVICES
        ]
        ear = Ear()
        wanted: list[type[Payload]] = [IncidentOpened, NodeFaulted, FaultClassified, RecoveryPlanned]
        await made[0].bus.listen(messages=wanted, handler=ear.take)
        try:
            for process in processes:
                process.spawn()
            for process in processes:
                assert await process.ready(), process.log()
            yield made, ear
        finally:
            for process in processes:
                process.kill()


def xid_79(node: str, now: object) -> ConditionRaised:
    return ConditionRaised.model_validate(
        {
            "condition_id": "cond-79",
            "node_id": node,
            "component": Component.GPU,
            "component_id": "GPU-b1",
            "check": "xid_79",
            "tier": Tier.FAILURE,
            "reason": "GPU has fallen off the bus",
            "device": DeviceEvidence(
                gpu_uuid="GPU-b1",
                board_serial="1650",
                xid=79,
                rule_id="xid.79",
                origin=Attribution.HARDWARE,
                action=Action.REPLACE_NODE,
            ),
            "raised_at": now,
        }
    )


@pytest.mark.asyncio
async def test_xid_79_is_judged_as_hardware_and_the_spare_takes_over(cast: tuple[list[ScriptedAgent], Ear]) -> None:
    made, ear = cast
    for agent in made:
        await agent.join()
    first = made[0]
    assert await first.until(StartWorkers, 1, LIMIT_S)
    raised = xid_79("b", first.clock.now())
    await first.bus.publish(seal(raised, source="/test", cause_id="cond-79", time=first.clock.now()))

    opened = await ear.first(IncidentOpened)
    assert opened.node_id == "b"
    assert await first.until(StopWorkers, 1, LIMIT_S)
    faulted = await ear.first(NodeFaulted)
    assert faulted.condition == raised
    verdict = await ear.first(FaultClassified)
    assert (verdict.attribution, verdict.cause) == (Attribution.HARDWARE, "gpu_lost")
    assert (verdict.culprit.node_id, verdict.culprit.gpu_uuid) == ("b", "GPU-b1")
    planned = await ear.first(RecoveryPlanned)
    assert [(move.node_id, move.node_rank) for move in planned.moves] == [("s", 1)]
    assert planned.attribution is Attribution.HARDWARE
    assert await first.until(StartWorkers, 2, LIMIT_S)

"""A device fails under a running gang: real planner, judge and ledger on a real nats-server, scripted agents."""

import asyncio
import json
import os
import sys
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
from fault_contracts.health import Component, ConditionCleared, ConditionRaised, DeviceEvidence, Tier
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
async def test_xid_79_is_judged_as_hardware_and_the_spare_takes_over(
    cast: tuple[list[ScriptedAgent], Ear], nats_server: NatsServer, unique_name: str
) -> None:
    made, ear = cast
    url = nats_server.url
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
    assert (verdict.attribution, verdict.cause) == (Attribution.HARDWARE, "gpu_fell_off_bus")
    assert (verdict.culprit.node_id, verdict.culprit.gpu_uuid) == ("b", "GPU-b1")
    planned = await ear.first(RecoveryPlanned)
    assert [(move.node_id, move.node_rank) for move in planned.moves] == [("s", 1)]
    assert planned.attribution is Attribution.HARDWARE
    assert await first.until(StartWorkers, 2, LIMIT_S)
    await it_is_listed_and_held_back_until_a_person_and_the_host_say_otherwise(first, made[1], url, unique_name)


async def it_is_listed_and_held_back_until_a_person_and_the_host_say_otherwise(
    first: ScriptedAgent, faulty: ScriptedAgent, url: str, cluster: str
) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            code, listed = await hardware(url, cluster, "list", "--json")
            if code == 0 and listed and json.loads(listed)["hold"] == "quarantined":
                break
            await asyncio.sleep(0.2)
    entry = json.loads(listed)
    assert (entry["device_id"], entry["node_id"], entry["strikes_total"]) == ("GPU-b1", "b", 1), (
        "the condition and its verdict are one strike"
    )
    await said_of(first, "b", "GPU-b1")
    now = first.clock.now()
    over = ConditionCleared(condition_id="cond-79", node_id="b", check="xid_79", reason="new GPU", cleared_at=now)
    await first.bus.publish(seal(over, source="/test", cause_id="cond-79", time=now))
    await said_of(first, "b", "GPU-b1 is in quarantine")
    code, text = await hardware(url, cluster, "release", "GPU-b1", "--reason", "reseated", "--by", "alice")
    assert code == 0, text
    assert "probation" in text
    await said_of(first, "b", "spare")
    code, text = await hardware(url, cluster, "show", "GPU-none")
    assert (code, text) == (1, "phalanx hardware: GPU-none is not in the ledger: nothing is held against it\n")


async def said_of(agent: ScriptedAgent, node: str, words: str) -> None:
    """The planner's answer to a question of admission, once it has these words in it."""
    question = json.dumps({"node_id": node, "spec": SPEC.model_dump(mode="json")}).encode()
    said = b""
    try:
        async with asyncio.timeout(LIMIT_S):
            while words not in said.decode():
                said = await agent.bus.ask(what="admission", key=agent.job_id, body=question, timeout_s=5.0) or b""
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{words!r} never came; last: {said!r}") from None
    assert json.loads(said)["admitted"] is True


async def hardware(url: str, cluster: str, *words: str) -> tuple[int, str]:
    """Exit code and output of `phalanx hardware ...` as a person runs it."""
    env = {**os.environ, "NATS_URL": url, "PHALANX_CLUSTER": cluster}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "phalanx_cli.main", "hardware", *words,
        env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()

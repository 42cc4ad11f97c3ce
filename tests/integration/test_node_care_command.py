"""A planner, a host role and the commands, as processes on a real bus: a node is listed, released, validated."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from action_place import UUID, Place
from agent_process import AgentProcess

from fault_contracts.envelope import seal
from fault_contracts.faults import Action, Attribution, Culprit, FaultClassified
from fault_contracts.payload import Reason
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.jetstream.streams import ensure_streams
from service_kit.settings import BusSettings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
POLICY = "ladder: {rungs: [reset_gpu], rounds_min: 1}\nbreaker: {share_max: 1.0}\n"


class Cluster:
    """What runs, and a person at a terminal."""

    def __init__(self, path: Path, url: str, cluster: str) -> None:
        self.place = Place(path, url, cluster)
        self.settings = BusSettings(nats_url=url, cluster=cluster)
        self.policy = path / "cluster.yaml"
        self.policy.write_text(POLICY)

    def planner(self) -> AgentProcess:
        env = {name: self.place.env[name] for name in ("NATS_URL", "PHALANX_CLUSTER", "PHALANX_LOG_FORMAT")}
        more = {"PHALANX_POLICY": str(self.policy), "PHALANX_HTTP_PORT": "0"}
        return AgentProcess(["-m", "recovery_planner.main"], cwd=self.place.path, env={**env, **more})

    async def says(self, *words: str) -> tuple[int, str]:
        env = {name: self.place.env[name] for name in ("NATS_URL", "PHALANX_CLUSTER")}
        async with AgentProcess(["-m", "phalanx_cli.main", *words], cwd=self.place.path, env=env) as process:
            return await process.exit_code(timeout_s=60), process.text

    async def blame(self) -> None:
        connection = await connect(self.settings, name="judge")
        now = datetime.now(UTC)
        verdict = FaultClassified(
            fault_id="fault-1",
            job_id="llm",
            topology_version=1,
            attribution=Attribution.HARDWARE,
            cause="gpu_memory",
            culprit=Culprit(node_id="node-a", gpu_uuid=UUID),
            confidence=0.9,
            action=Action.RESET_GPU,
            reasons=(Reason(rule_id="judge", sentence="an uncorrectable error"),),
            summary="",
            classified_at=now,
        )
        bus = JetStreamBus(connection, cluster=self.settings.cluster)
        await bus.publish(seal(verdict, source="/test", cause_id="fault-1", time=now))
        await connection.close()

    async def care(self) -> dict[str, Any]:
        _, text = await self.says("nodes", "--json")
        for line in text.splitlines():
            view = json.loads(line) if line.startswith("{") else {}
            if view.get("node_id") == "node-a" and view.get("care"):
                return dict(view["care"])
        return {}

    async def until(self, phase: str, why: str = "") -> dict[str, Any]:
        care: dict[str, Any] = {}
        for _ in range(60):
            care = await self.care()
            if care.get("phase") == phase and why in care["why"]:
                return care
            await asyncio.sleep(1)
        raise AssertionError(f"node-a is not {phase}: {care}")


@pytest.fixture
def cluster(tmp_path: Path, nats_server: NatsServer, unique_name: str) -> Cluster:
    made = Cluster(tmp_path, nats_server.url, unique_name)

    async def prepare() -> None:
        connection = await connect(made.settings, name="test")
        await ensure_streams(connection, made.settings)
        await connection.close()

    asyncio.run(prepare())
    return made


def test_a_node_fails_is_listed_released_and_validated(cluster: Cluster) -> None:
    async def story() -> None:
        async with cluster.planner() as planner, cluster.place.host() as host:
            await planner.wait_line("lead_taken", timeout_s=60)
            await host.wait_line("host_watches", timeout_s=60)
            await cluster.blame()
            # NVML is off here, so no reset can be verified: the ladder's only rung fails.
            listed = await cluster.until("listed")
            assert (cluster.place.path / "resets").read_text() == "reset 0000:3b:00\n", "once"
            assert "no rung is left" in listed["why"]
            assert listed["listed"] == [f"id:{UUID}"]
            code, text = await cluster.says("quarantine", "node-a", "--reason", "me too")
            assert (code, "out of use already" in text) == (1, True)
            code, text = await cluster.says("release", "node-a", "--reason", "seated anew", "--by", "alice")
            assert code == 0, text
            assert "validated first" in text
            # No ledger is kept here, so the gate cannot tell that the node is good: unknown is not a pass.
            again = await cluster.until("listed", "nobody keeps the ledger")
            assert "no rung is left" in again["why"]
            _, text = await cluster.says("nodes")
            assert "listed" in text
            assert "a person repairs and releases it" in text

    asyncio.run(story())


def test_a_policy_that_contradicts_itself_ends_the_planner_with_78(cluster: Cluster) -> None:
    cluster.policy.write_text("pool: {kind: static}\n")

    async def story() -> None:
        async with cluster.planner() as planner:
            assert await planner.exit_code(timeout_s=60) == 78
            assert "cluster.yaml:1: pool: a static pool needs a file" in planner.text

    asyncio.run(story())


def test_without_a_planner_nobody_answers(cluster: Cluster) -> None:
    code, text = asyncio.run(cluster.says("quarantine", "node-a", "--reason", "why"))
    assert code == 69
    assert "no planner leads" in text

"""The real operator between a real bus and the fake API server: what the planner's records say arrives at the nodes."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kube_cluster import Cluster
from kube_http import HttpCluster
from kube_players import Players

from fault_contracts.envelope import seal
from fault_contracts.hardware import NODE_RECORD_VERSION, NodeStanding, NodeStandingChanged
from fault_contracts.payload import Health, Reason
from fault_contracts.registry import Bucket
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.clock import SystemClock
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.jetstream.key_value import JetStreamKeyValue
from service_kit.jetstream.streams import ensure_streams
from service_kit.settings import BusSettings

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]
LIMIT_S = 40.0
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: fake
clusters: [{{name: fake, cluster: {{server: "{url}"}}}}]
contexts: [{{name: fake, context: {{cluster: fake, user: fake}}}}]
users: [{{name: fake, user: {{token: secret}}}}]
"""


def standing(fit: Health, version: int) -> NodeStanding:
    reasons = () if fit is Health.OK else (Reason(rule_id="node.condition", sentence="a GPU is gone"),)
    return NodeStanding(node_id="gpu-1", fit=fit, reasons=reasons, version=version)


def started(env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "recovery_planner.operator_main"], env=env)


async def until(cluster: Cluster, *, tainted: bool) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            node = cluster.get("nodes", "gpu-1")
            said = any(each["type"] == "PhalanxGPUUnhealthy" for each in node["status"]["conditions"])
            if said and bool(node["spec"].get("taints")) is tainted:
                return
            await asyncio.sleep(0.05)


async def test_a_standing_becomes_a_taint_and_goes_again(
    nats_server: NatsServer, unique_name: str, http_cluster: HttpCluster, tmp_path: Path
) -> None:
    cluster = http_cluster.cluster
    cluster.create("namespaces", {"metadata": {"name": "phalanx"}})
    Players(cluster).add_node("gpu-1")
    settings = BusSettings(nats_url=nats_server.url, cluster=unique_name[:40])
    connection = await connect(settings, name="test")
    await ensure_streams(connection, settings)
    records = JetStreamKeyValue(connection, Bucket.NODES, cluster=settings.cluster)
    bus = JetStreamBus(connection, cluster=settings.cluster)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(url=http_cluster.url))
    env = {
        **os.environ,
        "NATS_URL": settings.nats_url,
        "PHALANX_CLUSTER": settings.cluster,
        "PHALANX_OPERATOR_KUBECONFIG": str(kubeconfig),
        "PHALANX_OPERATOR_JOBS": "false",
    }
    process = started(env)
    try:
        for version, fit in enumerate((Health.BAD, Health.OK)):
            told = standing(fit, version)
            raw = json.dumps({"v": NODE_RECORD_VERSION, "standing": told.model_dump(mode="json")}).encode()
            entry = await records.get("gpu-1")
            if entry is None:
                await records.create("gpu-1", raw)
            else:
                await records.update("gpu-1", raw, entry.revision)
            now = SystemClock().now()
            changed = NodeStandingChanged(node_id="gpu-1", standing=told, changed_at=now)
            await bus.publish(seal(changed, source="/test", cause_id=f"v{version}", time=now))
            await until(cluster, tainted=fit is Health.BAD)
    finally:
        process.terminate()
        code = process.wait(timeout=20)
        await connection.close()
    assert code == 0
    assert cluster.get("leases", "phalanx-operator", namespace="phalanx", group="coordination.k8s.io")["spec"]

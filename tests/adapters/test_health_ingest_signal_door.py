"""The door for other systems' signals over a real socket: who gets in, what is understood, and what is published."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from fault_contracts.health import Component, SignalObserved
from fault_contracts.payload import Health
from fault_contracts.registry import Stream
from health_ingest.adapters.foreign_table import load_foreign_table
from health_ingest.adapters.signal_door import SignalDoor
from health_ingest.application.take_foreign import TakeForeign
from service_kit.clock import SystemClock
from service_kit.testing.memory_broker import MemoryBroker
from service_kit.testing.memory_bus import MemoryBus
from service_kit.web.token import BearerToken

pytestmark = pytest.mark.asyncio

TOKEN = "a-token-of-enough-letters"
ALERT = {
    "status": "firing",
    "labels": {"alertname": "NodeClockNotSynchronising", "instance": "gpu-07:9100", "severity": "warning"},
    "annotations": {"summary": "Clock not synchronising."},
    "startsAt": "2026-03-14T09:26:53.589Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://prometheus/graph",
    "fingerprint": "a1b2c3d4e5f60718",
}
HEALTH_EVENT = {
    "version": "1",
    "agent": "syslog-health-monitor",
    "componentClass": "GPU",
    "checkName": "SysLogsXIDError",
    "isFatal": True,
    "isHealthy": False,
    "message": "Xid 79",
    "recommendedAction": "RESTART_BM",
    "errorCode": ["79"],
    "entitiesImpacted": [
        {"entityType": "PCI", "entityValue": "0000:3b:00"},
        {"entityType": "GPU_UUID", "entityValue": "GPU-5a1f6f3e"},
    ],
    "generatedTimestamp": "2026-03-14T09:26:53.589Z",
    "nodeName": "gpu-07",
}


def alerts(*items: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": "4",
        "groupKey": "{}:{}",
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "phalanx",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager",
        "alerts": list(items),
    }


class Caller:
    """A door, and a client that speaks HTTP by hand."""

    def __init__(self, door: SignalDoor, broker: MemoryBroker) -> None:
        self.door = door
        self.broker = broker

    async def send(
        self, page: str, body: Any, *, kind: str = "application/json", head: str = "", token: str = TOKEN
    ) -> tuple[int, dict[str, str], Any]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = head or f"Content-Type: {kind}\r\nContent-Length: {len(raw)}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.door.port)
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        start = f"POST /v1/signals/{page} HTTP/1.1\r\nHost: ingest\r\n{bearer}{head}Connection: close\r\n\r\n"
        writer.write(start.encode() + raw)
        try:
            async with asyncio.timeout(30):
                answer = await reader.read()
        finally:
            writer.close()
        top, _, rest = answer.partition(b"\r\n\r\n")
        first, *lines = top.decode().split("\r\n")
        return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines), json.loads(rest)

    def published(self) -> list[SignalObserved]:
        return [each.envelope.data for each in self.broker.stored(Stream.HEALTH)]


@pytest_asyncio.fixture
async def caller() -> AsyncIterator[Caller]:
    broker = MemoryBroker(SystemClock())
    taking = TakeForeign(bus=MemoryBus(broker, name="ingest"), clock=SystemClock(), table=load_foreign_table())
    door = SignalDoor(taking, BearerToken(secret=TOKEN.encode()))
    await door.open("127.0.0.1", 0)
    yield Caller(door, broker)
    await door.stop()
    await broker.close()


async def test_an_alert_becomes_a_signal_and_sent_again_it_is_the_same(caller: Caller) -> None:
    status, _, answer = await caller.send("alertmanager", alerts(ALERT))
    assert status == 200
    assert (answer["accepted"], answer["ignored"], answer["refused"]) == (1, 0, 0)
    (item,) = answer["items"]
    assert (item["check"], item["node_id"], item["health"]) == ("foreign_clock_skew", "gpu-07", "bad")
    again = await caller.send("alertmanager", alerts(ALERT))
    assert again[2]["items"][0]["signal_id"] == item["signal_id"]
    (signal,) = caller.published()
    assert (signal.node_id, signal.health, signal.source) == ("gpu-07", Health.BAD, "alertmanager")
    assert "Clock not synchronising" in signal.detail


async def test_a_resolved_alert_is_a_good_sample_of_the_same_entity(caller: Caller) -> None:
    await caller.send("alertmanager", alerts(ALERT, ALERT | {"status": "resolved"}))
    bad, good = caller.published()
    assert (bad.health, good.health) == (Health.BAD, Health.OK)
    assert (bad.check, bad.component_id) == (good.check, good.component_id)


async def test_each_item_is_answered_in_its_place(caller: Caller) -> None:
    unknown = ALERT | {"labels": {"alertname": "Watchdog"}, "fingerprint": "1"}
    nodeless = ALERT | {"labels": {"alertname": "NodeClockSkewDetected"}, "fingerprint": "2"}
    status, _, answer = await caller.send("alertmanager", alerts(unknown, ALERT, nodeless))
    assert status == 200
    assert [item["outcome"] for item in answer["items"]] == ["ignored", "accepted", "refused"]
    assert "no row" in answer["items"][0]["why"]
    assert "no node" in answer["items"][2]["why"]
    assert len(caller.published()) == 1


async def test_an_alert_may_name_the_check_itself(caller: Caller) -> None:
    labels = {"alertname": "MyGpuAlert", "phalanx_check": "foreign_my_gpu", "UUID": "GPU-1", "node": "gpu-07"}
    await caller.send("alertmanager", alerts(ALERT | {"labels": labels}))
    (signal,) = caller.published()
    assert (signal.check, signal.component) == ("foreign_my_gpu", Component.GPU)
    assert signal.component_id.startswith("GPU-1 ")
    assert signal.attributes["gpu_uuid"] == "GPU-1"


async def test_an_nvsentinel_event_becomes_the_driver_event_that_it_saw(caller: Caller) -> None:
    event = {"metadata": {"cluster": "c"}, "healthEvent": HEALTH_EVENT}
    exported = {"specversion": "1.0", "id": "1", "source": "nvsentinel://c/healthevents"}
    exported |= {"type": "com.nvidia.nvsentinel.health.v1", "time": "2026-03-14T09:26:53Z", "data": event}
    for page, body in (
        ("nvsentinel", HEALTH_EVENT),
        ("nvsentinel", {"events": [HEALTH_EVENT]}),
        ("cloudevents", exported),
    ):
        status, _, answer = await caller.send(page, body)
        assert (status, answer["accepted"]) == (200, 1), answer
    (signal,) = caller.published()
    assert (signal.check, signal.component, signal.component_id) == ("xid_79", Component.GPU, "GPU-5a1f6f3e")
    assert signal.attributes["pci_bus_id"] == "0000:3b:00"
    assert signal.attributes["xid"] == "79"
    stored = HEALTH_EVENT | {"processingStrategy": "STORE_ONLY", "errorCode": ["48"]}
    assert (await caller.send("nvsentinel", stored))[2]["ignored"] == 1


async def test_cloudevents_come_alone_or_in_a_batch(caller: Caller) -> None:
    def event(number: int, **data: object) -> dict[str, Any]:
        given = {"node_id": "gpu-07", "check": "foreign_rack_power", "health": "bad", "detail": "PDU 3"} | data
        return {"specversion": "1.0", "id": str(number), "source": "/pdu", "type": "phalanx.signal.v1", "data": given}

    assert (await caller.send("cloudevents", event(1), kind="application/cloudevents+json"))[0] == 200
    batch = [event(1), event(2, health="ok"), event(3, health="sick")]
    status, _, answer = await caller.send("cloudevents", batch, kind="application/cloudevents-batch+json")
    assert status == 200
    assert [item["outcome"] for item in answer["items"]] == ["accepted", "accepted", "refused"]
    assert [signal.health for signal in caller.published()] == [Health.BAD, Health.OK]


@pytest.mark.parametrize(
    ("body", "check", "node", "health"),
    [
        (
            {"cloud": "aws", "node_id": "n", "events": [{"EventId": "e", "Code": "system-reboot", "State": "active"}]},
            "foreign_maintenance",
            "n",
            "bad",
        ),
        (
            {
                "cloud": "aws",
                "events": [
                    {
                        "InstanceEventId": "e",
                        "Code": "instance-retirement",
                        "Description": "[Completed] gone",
                        "InstanceId": "i-1",
                    }
                ],
            },
            "foreign_maintenance",
            "i-1",
            "ok",
        ),
        (
            {
                "cloud": "aws",
                "events": [
                    {
                        "id": "b",
                        "detail-type": "EC2 Spot Instance Interruption Warning",
                        "detail": {"instance-id": "i-2", "instance-action": "terminate"},
                    }
                ],
            },
            "foreign_spot_notice",
            "i-2",
            "bad",
        ),
        (
            {"cloud": "gcp", "node_id": "n", "events": [{"key": "preempted", "value": "TRUE"}]},
            "foreign_spot_notice",
            "n",
            "bad",
        ),
        (
            {"cloud": "gcp", "node_id": "n", "events": [{"key": "maintenance-event", "value": "NONE"}]},
            "foreign_maintenance",
            "n",
            "ok",
        ),
        (
            {
                "cloud": "azure",
                "DocumentIncarnation": 1,
                "Events": [
                    {"EventId": "e", "EventType": "Redeploy", "Resources": ["vm-1"], "EventStatus": "Scheduled"}
                ],
            },
            "foreign_maintenance",
            "vm-1",
            "bad",
        ),
    ],
    ids=["aws metadata", "aws status", "aws spot", "gcp spot", "gcp none", "azure"],
)
async def test_notices_of_clouds(caller: Caller, body: dict[str, Any], check: str, node: str, health: str) -> None:
    status, _, answer = await caller.send("maintenance", body)
    assert status == 200, answer
    (item,) = answer["items"]
    assert (item["check"], item["node_id"], item["health"]) == (check, node, health)


async def test_conditions_of_a_node_ready_the_other_way_round(caller: Caller) -> None:
    conditions = [
        {"type": "KernelDeadlock", "status": "True", "reason": "AUFSUmountHung", "message": "hung"},
        {"type": "Ready", "status": "True"},
        {"type": "MemoryPressure", "status": "Unknown"},
        {"type": "Custom", "status": "True"},
    ]
    _, _, answer = await caller.send("node-problem-detector", {"nodeName": "gpu-07", "conditions": conditions})
    assert [(item["outcome"], item["health"]) for item in answer["items"]] == [
        ("accepted", "bad"),
        ("accepted", "ok"),
        ("accepted", "unknown"),
        ("ignored", ""),
    ]


@pytest.mark.parametrize("token", ["", "wrong-token-of-letters", TOKEN + "x", TOKEN[:-1]])
async def test_without_the_token_nobody_gets_in(caller: Caller, token: str) -> None:
    status, headers, problem = await caller.send("alertmanager", alerts(ALERT), token=token)
    assert (status, headers["content-type"]) == (401, "application/problem+json")
    assert headers["www-authenticate"] == "bearer"
    assert problem["status"] == 401
    assert caller.published() == []


@pytest.mark.parametrize(
    ("page", "body", "kind", "status", "word"),
    [
        ("alertmanager", b"{}", "text/plain", 415, "application/json"),
        ("alertmanager", b"not json", "application/json", 422, "JSON"),
        ("alertmanager", b'{"version": "3", "alerts": []}', "application/json", 422, "version"),
        ("alertmanager", b"[" * 100_000, "application/json", 422, "recursion"),
        ("alertmanager", b'{"version": "4", "alerts": [' + b" " * 1_000_000 + b"]}", "application/json", 413, "bytes"),
        ("nvsentinel", b'{"checkName": "x"}', "application/json", 422, "isHealthy"),
        ("cloudevents", b'{"specversion": "0.3"}', "application/cloudevents+json", 422, "specversion"),
        ("maintenance", b'{"cloud": "oci", "events": []}', "application/json", 422, "cloud"),
        ("maintenance", b'{"cloud": "aws", "events": [7]}', "application/json", 422, "events.0"),
        ("pagerduty", b"{}", "application/json", 404, "/v1/signals/alertmanager"),
    ],
)
async def test_what_is_wrong_is_a_problem_with_its_reason(
    caller: Caller, page: str, body: bytes, kind: str, status: int, word: str
) -> None:
    found, headers, problem = await caller.send(page, body, kind=kind)
    assert (found, headers["content-type"]) == (status, "application/problem+json"), problem
    assert word in problem["detail"]
    assert caller.published() == []


async def test_a_body_without_a_length_is_bounded_as_well(caller: Caller) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    status, _, _ = await caller.send("alertmanager", chunk * 16 + b"0\r\n\r\n", head=head)
    assert status == 413


async def test_what_the_bus_does_not_take_is_to_be_sent_again(caller: Caller) -> None:
    caller.broker.partitioned.add("ingest")
    status, headers, _ = await caller.send("alertmanager", alerts(ALERT))
    assert (status, headers["retry-after"]) == (503, "5")
    caller.broker.partitioned.clear()
    assert (await caller.send("alertmanager", alerts(ALERT)))[2]["accepted"] == 1
    assert len(caller.published()) == 1

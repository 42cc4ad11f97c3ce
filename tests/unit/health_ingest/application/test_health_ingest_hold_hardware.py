"""Ledger and standings as services on the memory bus: strikes, moves, orders of a person, kills between two steps."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from fault_contracts.envelope import seal
from fault_contracts.faults import Action, Attribution, Culprit, FaultClassified
from fault_contracts.hardware import HardwareChanged, NodeStandingChanged
from fault_contracts.health import Component, ConditionCleared, ConditionRaised, DeviceEvidence, Tier
from fault_contracts.inventory import DeviceIdentity, DeviceKind, InventoryReported
from fault_contracts.payload import Health, Payload, Reason
from fault_contracts.registry import Stream
from health_ingest.adapters.kv_ledger import KvLedger
from health_ingest.adapters.kv_nodes import KvNodes
from health_ingest.application.answer_hardware import CHANGES
from health_ingest.application.hold_hardware import HoldHardware, assemble
from health_ingest.domain.ledger import LedgerPolicy
from service_kit.failpoints import Failpoints
from service_kit.testing.memory_broker import MemoryBroker, Trouble
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.memory_key_value import MemoryKeyValue
from service_kit.testing.virtual_clock import LoopClock, run_virtual

LOSSY = Trouble(publish_lost=0.2, dropped=0.2, duplicated=0.2, delay_s_max=0.3)


class Stage:
    """One health-ingest, as far as hardware goes, and everybody who speaks to it."""

    def __init__(self, trouble: Trouble | None = None, seed: int = 0) -> None:
        self.clock = LoopClock()
        self.broker = MemoryBroker(self.clock, seed=seed, trouble=trouble)
        self.entries, self.standings = MemoryKeyValue(), MemoryKeyValue()
        self.desk = MemoryBus(self.broker, name="desk")
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self, name: str = "ingest") -> HoldHardware:
        hardware = assemble(
            bus=MemoryBus(self.broker, name=name),
            clock=self.clock,
            ledger=KvLedger(self.entries),
            nodes=KvNodes(self.standings),
            policy=LedgerPolicy(),
            failpoints=Failpoints(),
            rescan_s=300,
        )
        await hardware.start()
        self.tasks += [
            asyncio.create_task(hardware.ledger.run()),
            asyncio.create_task(hardware.ledger.rescan_forever()),
        ]
        return hardware

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.broker.close()

    async def say(self, payload: Payload, cause: str) -> None:
        envelope = seal(payload, source="/test", cause_id=cause, time=self.clock.now())
        for _ in range(100):
            try:
                await self.desk.publish(envelope)
            except Exception:  # noqa: BLE001 - the outbox repeats whatever happened
                await self.clock.sleep(0.1)
            else:
                return
        raise AssertionError("never stored")

    async def fails(self, condition_id: str = "c1", *, node: str = "a", **evidence: object) -> None:
        device = {"gpu_uuid": "GPU-1", "rule_id": "xid.79", "origin": "hardware", "action": "replace_node"}
        await self.say(
            ConditionRaised(
                condition_id=condition_id,
                node_id=node,
                component=Component.GPU,
                component_id=str(evidence.pop("component_id", "GPU-1")),
                check="xid_79",
                tier=Tier.FAILURE,
                reason="fell off the bus",
                device=DeviceEvidence.model_validate(device | evidence),
                raised_at=self.clock.now(),
            ),
            condition_id,
        )

    async def is_well(self, condition_id: str = "c1", node: str = "a") -> None:
        now = self.clock.now()
        cleared = ConditionCleared(
            condition_id=condition_id, node_id=node, check="xid_79", reason="rebooted", cleared_at=now
        )
        await self.say(cleared, condition_id)

    async def has(self, node: str, *devices: str, serial: str = "1650") -> None:
        now = self.clock.now()
        gpus = tuple(
            DeviceIdentity(
                kind=DeviceKind.GPU,
                device_id=device,
                board_serial=f"{serial}-{place}",
                pci_vendor_data="10de:2330",
                pci_bus_id=f"0000:{place}b:00",
            )
            for place, device in enumerate(devices)
        )
        report = InventoryReported(node_id=node, instance_id=f"{node}/1", devices=gpus, reported_at=now)
        await self.say(report, f"{node} at {now}")

    async def ask(self, **question: str) -> dict[str, Any]:
        body = json.dumps(question).encode()
        what = "hardware_change" if question["verb"] in CHANGES else "hardware"
        said = await self.desk.ask(what=what, key="ledger", body=body, timeout_s=5)
        return dict(json.loads(said or b"{}"))

    async def fit(self, node: str) -> Health:
        await self.clock.sleep(200)
        record = await KvNodes(self.standings).load(node)
        return Health.UNKNOWN if record is None else record.state.standing.fit

    def heard(self, kind: type[Payload]) -> list[Any]:
        found = [each.envelope.data for each in self.broker.stored(Stream.HEALTH)]
        return [each for each in found if isinstance(each, kind)]


def told(story: Callable[[Stage], Awaitable[None]], **kind: object) -> None:
    async def main() -> None:
        stage = Stage(**kind)  # type: ignore[arg-type]
        await story(stage)
        await stage.end()

    run_virtual(main())


def test_a_device_goes_into_quarantine_its_node_is_bad_and_comes_back_after_release() -> None:
    async def story(stage: Stage) -> None:
        await stage.begin()
        await stage.has("a", "GPU-0", "GPU-1")
        assert await stage.fit("a") is Health.OK
        await stage.fails()
        assert await stage.fit("a") is Health.BAD
        [entry] = (await stage.ask(verb="list"))["entries"]
        assert (entry["device_id"], entry["hold"], entry["node_id"], entry["by"]) == (
            "GPU-1",
            "quarantined",
            "a",
            "health-ingest",
        )
        assert entry["board_serial"] == "1650-1", "the inventory knows the board"
        await stage.is_well()
        assert await stage.fit("a") is Health.BAD, "the condition is over, the ledger is not"
        said = await stage.ask(verb="release", device_id="GPU-1", by="alice", reason="reseated")
        assert (said["ok"], said["changed"]) == (True, True)
        assert await stage.fit("a") is Health.OK
        told_of = [(each.standing.fit, each.standing.version) for each in stage.heard(NodeStandingChanged)]
        assert [version for _, version in told_of] == sorted({version for _, version in told_of})
        await stage.fails("c2", action="reset_gpu")
        await stage.is_well("c2")
        assert await stage.fit("a") is Health.BAD, "it was on probation"

    told(story)


def test_a_quarantined_device_makes_another_node_bad_and_its_old_one_fit() -> None:
    async def story(stage: Stage) -> None:
        await stage.begin()
        await stage.has("a", "GPU-1")
        await stage.fails()
        await stage.is_well()
        assert await stage.fit("a") is Health.BAD
        await stage.has("b", "GPU-1")
        assert await stage.fit("b") is Health.BAD
        assert await stage.fit("a") is Health.OK
        await stage.has("c", "GPU-of-another-name")
        assert await stage.fit("c") is Health.BAD, "the same board under another uuid"
        [entry] = (await stage.ask(verb="show", device_id="GPU-1"))["entries"]
        assert entry["other_ids"] == ["GPU-of-another-name"]

    told(story)


def test_what_an_inventory_tells_of_a_struck_device_is_kept_though_it_moved_nowhere() -> None:
    async def story(stage: Stage) -> None:
        await stage.begin()
        await stage.fails()
        await stage.clock.sleep(200)
        await stage.has("a", "GPU-1")
        await stage.clock.sleep(200)
        await stage.has("b", "GPU-of-another-name")
        assert await stage.fit("b") is Health.BAD, "the same board under another uuid"

    told(story)


@pytest.mark.parametrize("kind", [{"origin": "user"}, {"sympathetic": True}, {"origin": "driver"}])
def test_what_is_not_the_hardwares_fault_never_strikes(kind: dict[str, object]) -> None:
    async def story(stage: Stage) -> None:
        await stage.begin()
        await stage.fails(**kind)  # type: ignore[arg-type]
        await stage.clock.sleep(60)
        assert (await stage.ask(verb="list"))["entries"] == []

    told(story)


def test_a_device_without_a_name_of_its_own_is_found_by_its_address_or_not_listed() -> None:
    async def story(stage: Stage) -> None:
        await stage.begin()
        await stage.fails("c1", node="x", gpu_uuid="", component_id="0000:0b:00", pci_bus_id="0000:0b:00")
        await stage.clock.sleep(60)
        assert (await stage.ask(verb="list"))["entries"] == []
        await stage.has("a", "GPU-7")
        await stage.clock.sleep(60)
        await stage.fails("c2", gpu_uuid="", component_id="0000:0b:00", pci_bus_id="0000:0b:00")
        await stage.clock.sleep(60)
        [entry] = (await stage.ask(verb="list"))["entries"]
        assert entry["device_id"] == "GPU-7"

    told(story)


def verdict(stage: Stage, *conditions: str) -> FaultClassified:
    return FaultClassified(
        fault_id="fault-1",
        job_id="job",
        topology_version=1,
        attribution=Attribution.HARDWARE,
        cause="gpu_memory",
        culprit=Culprit(node_id="a", gpu_uuid="GPU-1"),
        confidence=0.9,
        action=Action.RESET_GPU,
        reasons=(Reason(rule_id="hardware.gpu_memory", sentence="double bit error"),),
        summary="",
        condition_ids=conditions,
        classified_at=stage.clock.now(),
    )


@pytest.mark.parametrize("first", ["condition", "verdict"])
def test_a_condition_and_its_verdict_are_one_strike(first: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.begin()
        steps = [stage.fails(action="reset_gpu"), stage.say(verdict(stage, "c1"), "fault-1")]
        for step in steps if first == "condition" else reversed(steps):
            await step
            await stage.clock.sleep(5)
        [entry] = (await stage.ask(verb="show", device_id="GPU-1"))["entries"]
        assert entry["strikes_total"] == 1
        await stage.say(verdict(stage).model_copy(update={"fault_id": "fault-2"}), "fault-2")
        await stage.clock.sleep(5)
        [entry] = (await stage.ask(verb="show", device_id="GPU-1"))["entries"]
        assert entry["strikes_total"] == 2, "a verdict that no condition stands behind"

    told(story)


def test_a_person_takes_a_device_out_until_a_date() -> None:
    async def story(stage: Stage) -> None:
        await stage.begin()
        await stage.has("a", "GPU-1")
        await stage.clock.sleep(5)
        until = (stage.clock.now() + timedelta(days=2)).isoformat()
        order = {"verb": "quarantine", "device_id": "GPU-1", "by": "alice@desk", "reason": "smells", "until": until}
        assert (await stage.ask(**order))["changed"] is True
        assert (await stage.ask(**order))["changed"] is False, "a repeated order changes nothing"
        assert await stage.fit("a") is Health.BAD
        await stage.clock.sleep(2 * 86_400)
        assert await stage.fit("a") is Health.OK
        [entry] = (await stage.ask(verb="show", device_id="GPU-1"))["entries"]
        assert entry["hold"] == "probation"
        await stage.clock.sleep(8 * 86_400)
        [entry] = (await stage.ask(verb="show", device_id="GPU-1"))["entries"]
        assert entry["hold"] == "free"

    told(story)


@pytest.mark.parametrize(
    ("question", "wrong"),
    [
        ({"verb": "melt", "device_id": "GPU-1"}, "verb 'melt'"),
        ({"verb": "show"}, "device_id is missing"),
        ({"verb": "show", "device_id": "GPU-9"}, "not in the ledger"),
        ({"verb": "release", "device_id": "GPU-9", "by": "a", "reason": "b"}, "nothing to release"),
        ({"verb": "quarantine", "device_id": "GPU-1", "reason": "b"}, "by is missing"),
        ({"verb": "quarantine", "device_id": "GPU-1", "by": "a"}, "reason is missing"),
        ({"verb": "quarantine", "device_id": "G", "by": "a", "reason": "b", "until": "soon"}, "not understood"),
        ({"verb": "quarantine", "device_id": "G", "by": "a", "reason": "b", "until": "2001-01-01"}, "no time zone"),
        ({"verb": "quarantine", "device_id": "G", "by": "a", "reason": "b", "until": "2001-01-01T00:00+00:00"}, "over"),
    ],
)
def test_a_wrong_question_is_told_what_is_wrong(question: dict[str, str], wrong: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.begin()
        said = await stage.ask(**question)
        assert said["ok"] is False
        assert wrong in said["error"]

    told(story)


@pytest.mark.parametrize("seed", range(4))
def test_on_a_bad_bus_each_strike_counts_once_and_the_standing_is_right(seed: int) -> None:
    async def story(stage: Stage) -> None:
        await stage.begin("one")
        await stage.begin("two")
        for number in range(6):
            await stage.fails(f"c{number}", action="reset_gpu")
        for number in range(6):
            await stage.is_well(f"c{number}")
        await stage.clock.sleep(1_000)
        stage.broker.trouble = Trouble()
        [entry] = (await stage.ask(verb="show", device_id="GPU-1"))["entries"]
        assert entry["strikes_total"] == 6
        assert entry["hold"] == "quarantined"
        record = await KvNodes(stage.standings).load("a")
        assert record is not None
        assert record.state.standing.conditions == ()
        assert [each.device_id for each in record.state.standing.held] == ["GPU-1"]
        changes = [each.change.value for each in stage.heard(HardwareChanged)]
        assert changes.count("struck") == 6
        assert changes.count("quarantined") == 1

    told(story, seed=seed, trouble=LOSSY)


def test_who_may_only_read_the_ledger_cannot_change_it() -> None:
    async def play(stage: Stage) -> None:
        await stage.begin()
        for verb in CHANGES:
            body = json.dumps({"verb": verb, "device_id": "GPU-1", "by": "n1", "reason": "mine"}).encode()
            said = json.loads(await stage.desk.ask(what="hardware", key="ledger", body=body, timeout_s=5) or b"{}")
            assert (said["ok"], said["entries"]) == (False, [])
            assert "list or show" in said["error"]
        assert (await stage.ask(verb="list"))["entries"] == []

    told(play)

"""Batches of signals to conditions: what ends them, what counts, and nothing lost on a bus that fails."""

from __future__ import annotations

import pytest
from ingest_stage import Stage, conditions, story

from fault_contracts.health import Component, ConditionCleared, ConditionRaised, Sample, SignalObserved, SignalsObserved
from fault_contracts.node_actions import ActionOutcome, NodeAction, NodeActionReported
from fault_contracts.payload import Health, Reason
from service_kit.testing.memory_broker import Trouble

GPU = "GPU-5d1f2a3b-0c4d-4e5f-8a9b-1c2d3e4f5a6b"


def seen(stage: Stage, check: str, *, boot_id: str = "b1", old: bool = False, **more: object) -> SignalObserved:
    return SignalObserved(
        node_id="node-0",
        component=Component.GPU,
        component_id=GPU,
        check=check,
        health=Health.BAD,
        detail="the line",
        boot_id=boot_id,
        old=old,
        source="kmsg",
        observed_at=stage.clock.now(),
        **more,
    )


def swept(stage: Stage, *samples: tuple[str, Health], boot_id: str = "b1", sweep: int = 0) -> SignalsObserved:
    now = stage.clock.now()
    return SignalsObserved(
        node_id="node-0",
        instance_id="life",
        sweep=sweep,
        whole=True,
        boot_id=boot_id,
        samples=tuple(
            Sample(component=Component.GPU, component_id=GPU, check=check, health=health, observed_at=now)
            for check, health in samples
        ),
        source="nvml",
        observed_at=now,
    )


def test_a_sweep_becomes_one_condition_for_each_bad_sample_and_none_for_the_good_ones() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.clock.sleep(1)
        await stage.say(swept(stage, ("a", Health.BAD), ("b", Health.OK), ("c", Health.UNKNOWN)), "s")
        await stage.clock.sleep(1)
        assert [each.check for each in stage.heard(ConditionRaised)] == ["a"]
        assert list(await conditions(stage)) == ["a"]

    story(told)


def test_what_the_policy_says_of_the_device_is_told_with_the_condition() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "xid_like", attributes={"pci_bus_id": "0000:3b:00", "pid": "77"}), "s")
        await stage.clock.sleep(1)
        (raised,) = stage.heard(ConditionRaised)
        assert raised.tier == "failure"
        device = raised.device
        assert device is not None
        assert (device.gpu_uuid, device.pci_bus_id, device.pid) == (GPU, "0000:3b:00", 77)
        assert (device.origin, device.action, device.rule_id) == ("hardware", "reset_gpu", "check.xid_like")

    story(told)


def test_what_is_only_recorded_is_counted_and_raises_nothing() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        for number in range(5):
            await stage.say(seen(stage, "noise", count=10), f"s{number}")
        await stage.clock.sleep(200)
        assert stage.heard(ConditionRaised) == []
        found = (await conditions(stage))["noise"]
        assert (found.total, found.codes) == (50, (("noise", 50),))

    story(told)


def test_a_new_boot_ends_what_waits_for_a_reset_and_nothing_else() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "xid_like"), "s0")
        await stage.say(seen(stage, "hot"), "s1")
        await stage.clock.sleep(10)
        await stage.say(swept(stage, boot_id="b1"), "same")
        await stage.clock.sleep(10)
        assert stage.heard(ConditionCleared) == []
        await stage.say(swept(stage, boot_id="b2", sweep=1), "boot")
        await stage.clock.sleep(1)
        assert [each.check for each in stage.heard(ConditionCleared)] == ["xid_like"]

    story(told)


@pytest.mark.parametrize(
    ("outcome", "gpu", "cleared"),
    [(ActionOutcome.DONE, GPU, 1), (ActionOutcome.FAILED, GPU, 0), (ActionOutcome.DONE, "GPU-other", 0)],
)
def test_a_gpu_that_was_reset_by_order_is_clear(outcome: ActionOutcome, gpu: str, cleared: int) -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "xid_like"), "s0")
        await stage.clock.sleep(10)
        report = NodeActionReported(
            node_id="node-0",
            instance_id="life",
            operation_id="op",
            action=NodeAction.RESET_GPU,
            outcome=outcome,
            gpu_uuid=gpu,
            reason=Reason(rule_id="r", sentence="done"),
            finished_at=stage.clock.now(),
        )
        await stage.say(report, "r")
        await stage.clock.sleep(1)
        assert len(stage.heard(ConditionCleared)) == cleared

    story(told)


def test_quiet_ends_an_event_only_while_the_node_is_heard() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "event"), "s0")
        await stage.clock.sleep(1_000)
        assert stage.heard(ConditionCleared) == [], "nobody knows whether it was quiet, or the agent dead"
        await stage.say(swept(stage), "alive")
        await stage.clock.sleep(120)
        assert [each.check for each in stage.heard(ConditionCleared)] == ["event"]

    story(told)


def test_an_old_signal_raises_only_what_still_holds() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "event", old=True), "s0")
        await stage.say(seen(stage, "xid_like", attributes={"seq": "7"}, old=True), "s1")
        await stage.clock.sleep(1)
        assert [each.check for each in stage.heard(ConditionRaised)] == ["xid_like"]
        assert (await conditions(stage))["event"].total == 1

    story(told)


def test_a_log_that_is_read_again_counts_nothing_twice() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "noise", attributes={"seq": "7"}), "s0")
        await stage.say(seen(stage, "noise", attributes={"seq": "7"}, old=True), "again")
        await stage.say(seen(stage, "noise", attributes={"seq": "8"}, old=True), "missed")
        await stage.clock.sleep(1)
        assert (await conditions(stage))["noise"].total == 2

    story(told)


@pytest.mark.parametrize("seed", range(6))
def test_a_lossy_bus_counts_every_signal_once(seed: int) -> None:
    async def told(stage: Stage) -> None:
        first = await stage.live()
        for number in range(60):
            await stage.say(seen(stage, f"check_{number % 4}", count=1 + number % 3), f"s{number}")
            if number == 30:
                await stage.die(first)
                await stage.live("ingest-2")
        await stage.clock.sleep(400)
        found = await conditions(stage)
        assert sum(each.total for each in found.values()) == sum(1 + number % 3 for number in range(60))
        raised = [each for each in stage.heard(ConditionRaised) if each.tier == "problem"]
        assert len(raised) == 4

    trouble = Trouble(publish_lost=0.15, dropped=0.1, duplicated=0.2, delay_s_max=0.2)
    story(told, seed=seed, trouble=trouble)

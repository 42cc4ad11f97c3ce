"""What the host role tells, when, and that no part of it can stop the others."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from host_rig import Host, ScriptedCollector, ScriptedSource, seen

from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.payload import Health
from node_agent.application import follow_events
from node_agent.application.answer_host_health import HostHealthAnswer
from node_agent.application.collector_ports import CollectorFailed
from node_agent.domain.look_schedule import WatchState
from service_kit.testing.virtual_clock import run_virtual

OK, BAD, UNKNOWN = Health.OK, Health.BAD, Health.UNKNOWN


def test_the_whole_table_comes_first_then_only_what_is_not_well() -> None:
    nvml = ScriptedCollector("nvml", [seen("a"), seen("b")], [seen("a"), seen("b", BAD)], [seen("a"), seen("b")])

    async def story() -> None:
        async with Host(nvml) as host:
            await asyncio.sleep(1)
            (whole,) = host.outbox.sweeps
            assert (whole.whole, whole.sweep, whole.instance_id, whole.boot_id) == (True, 0, "life-1", "boot-1")
            assert {sample.check for sample in whole.samples} == {"a", "b", "nvml_collector"}
            await asyncio.sleep(100)
            told = [[(sample.check, sample.health) for sample in sweep.samples] for sweep in host.outbox.sweeps[1:]]
            assert told == [[("b", BAD)]] + [[("b", OK)]] * 5
            assert [sweep.sweep for sweep in host.outbox.sweeps] == list(range(7))

    run_virtual(story())


def test_the_whole_table_is_told_again_after_a_reconnect_and_now_and_then() -> None:
    async def story() -> None:
        async with Host(ScriptedCollector("nvml", [seen("a")])) as host:
            await asyncio.sleep(1)
            await host.life.on_reconnected()
            await asyncio.sleep(1)
            assert [sweep.whole for sweep in host.outbox.sweeps] == [True, True]
            await asyncio.sleep(600)
            assert [sweep.whole for sweep in host.outbox.sweeps] == [True, True, True]

    run_virtual(story())


def test_a_collector_that_hangs_leaves_the_others_alone_and_its_rows_become_unknown() -> None:
    stuck = ScriptedCollector("stuck", [seen("x")], 10_000.0)
    well = ScriptedCollector("well", [seen("y")])

    async def story() -> None:
        async with Host(stuck, well) as host:
            await asyncio.sleep(101)
            assert well.begun_s == [10.0 * number for number in range(11)]
            assert stuck.begun_s == [0.0, 10.0, 20.0]  # two hang; no third is started
            rows = host.rows()
            assert rows["x"].health is UNKNOWN
            assert rows["x"].detail.startswith("not seen by stuck")
            assert rows["y"].health is OK
            assert rows["stuck_collector"].health is BAD
            assert "2 looks of stuck hang" in rows["stuck_collector"].detail
            assert [watch.state for watch in host.life.watches()] == [WatchState.STUCK, WatchState.WORKING]
            told = [sample for sweep in host.outbox.sweeps for sample in sweep.samples if sample.check == "x"]
            assert [sample.health for sample in told] == [OK, UNKNOWN]

    run_virtual(story())


def test_a_look_that_comes_back_late_frees_its_place() -> None:
    slow = ScriptedCollector("slow", 12.0, 12.0, [seen("x")])

    async def story() -> None:
        async with Host(slow) as host:
            await asyncio.sleep(60)
            assert host.rows()["slow_collector"].health is OK
            assert host.rows()["x"].health is OK

    run_virtual(story())


def test_a_failing_collector_says_why_and_recovers() -> None:
    failing = ScriptedCollector(
        "nvml",
        CollectorFailed("no driver: modprobe nvidia"),
        RuntimeError("a bug"),
        CollectorFailed("again"),
        [seen("x")],
    )

    async def story() -> None:
        async with Host(failing) as host:
            found = []
            for _ in range(4):
                await asyncio.sleep(9)
                found.append((host.rows()["nvml_collector"].health, host.rows()["nvml_collector"].detail))
                await asyncio.sleep(1)
            assert found == [
                (UNKNOWN, "no driver: modprobe nvidia (1 in a row)"),
                (UNKNOWN, "nvml failed: RuntimeError: a bug (2 in a row)"),
                (BAD, "again (3 in a row)"),
                (OK, "nvml answers"),
            ]
        assert failing.closed

    run_virtual(story())


def test_events_do_not_wait_and_their_ids_survive_the_agent() -> None:
    async def life() -> tuple[list[str], list[bool]]:
        source = ScriptedSource(
            "kmsg", [seen("xid_79", BAD, seq="4711", job_id="llm", rank="3"), seen("note", UNKNOWN)]
        )
        async with Host(sources=[source]) as host:
            await asyncio.sleep(0.01)
            signal = host.outbox.events[0]
            assert (signal.check, signal.job_id, signal.rank, signal.boot_id) == ("xid_79", "llm", 3, "boot-1")
            assert signal.source == "node-agent/kmsg"
            assert host.rows()["xid_79"].health is BAD
            told = [pair for pair in host.outbox.told if pair[0].type.startswith("evt.health.signal_observed")]
            return [envelope.id for envelope, _ in told], [urgent for _, urgent in told]

    first, urgent = run_virtual(life())
    again, _ = run_virtual(life())
    assert first == again
    assert len(set(first)) == 2
    assert urgent == [True, False]


def test_a_source_is_started_again_with_backoff_and_one_without_work_ends_quietly() -> None:
    failing = ScriptedSource("kmsg", *[CollectorFailed("gone")] * 4, [])
    absent = ScriptedSource("nvml_events", None)

    async def story() -> None:
        async with Host(ScriptedCollector("host", [seen("a")]), sources=[failing, absent]) as host:
            await asyncio.sleep(14.9)
            assert failing.runs_s == [0, 1, 3, 7]
            assert host.rows()["kmsg_collector"].health is BAD
            assert "nvml_events_collector" not in host.rows()
            assert host.life.watches()[2].state is WatchState.ABSENT
            await asyncio.sleep(120)
            assert failing.runs_s == [0, 1, 3, 7, 15]
            assert host.rows()["kmsg_collector"].health is OK

    run_virtual(story())


def test_what_does_not_fit_is_counted_and_the_count_is_told() -> None:
    storm = [seen(f"e{number}", BAD) for number in range(follow_events.EVENTS_WAITING_MAX + 7)]
    source = ScriptedSource("kmsg", storm)

    async def story() -> None:
        async with Host(sources=[source]) as host:
            await asyncio.sleep(1)
            assert len(host.outbox.events) == follow_events.EVENTS_WAITING_MAX + 1
            lost = host.outbox.events[-1]
            assert (lost.check, lost.count, lost.health) == ("events_dropped", 7, BAD)
            assert host.life.queue.dropped == 7

    run_virtual(story())


def test_the_inventory_is_told_at_the_start_and_when_it_changes() -> None:
    nvml = ScriptedCollector("nvml", [seen("driver_version", driver_version="570.124.06")])

    async def story() -> None:
        async with Host(nvml) as host:
            host.directory.learn(DeviceIdentity(kind=DeviceKind.GPU, device_id="GPU-1"))
            await asyncio.sleep(25)
            (first,) = host.outbox.inventories
            assert ([device.device_id for device in first.devices], first.gpus_expected) == (["GPU-1"], 8)
            assert first.driver_version == "570.124.06"
            host.directory.learn(DeviceIdentity(kind=DeviceKind.GPU, device_id="GPU-2"))
            await asyncio.sleep(10)
            assert [len(inventory.devices) for inventory in host.outbox.inventories] == [1, 2]

    run_virtual(story())


def test_sweeps_stop_while_too_many_wait_and_events_do_not() -> None:
    async def story() -> None:
        source = ScriptedSource("kmsg", [])
        async with Host(ScriptedCollector("nvml", [seen("a", BAD)]), sources=[source]) as host:
            await asyncio.sleep(1)
            before = len(host.outbox.sweeps)
            host.outbox.waiting = 1_000
            await asyncio.sleep(100)
            assert len(host.outbox.sweeps) == before
            assert source.emit is not None
            source.emit(seen("xid_79", BAD))
            await asyncio.sleep(1)
            assert [event.check for event in host.outbox.events] == ["xid_79"]

    run_virtual(story())


def test_the_answer_has_everything_with_ages_and_is_cut_at_its_limit() -> None:
    many = [replace(seen("x"), component_id=f"GPU-{number}", detail="d" * 400) for number in range(2_000)]

    async def story() -> None:
        async with Host(ScriptedCollector("nvml", [seen("bad", BAD), *many])) as host:
            await asyncio.sleep(4)
            raw = await HostHealthAnswer(host.life, host.clock, uptime_s=lambda: 77.0).reply(b"")
            answer = json.loads(raw)
            assert len(raw) < 1_000_000
            assert answer["cut"] == 2_002 - len(answer["rows"]) > 0
            worst = answer["rows"][0]
            assert (worst["check"], worst["health"], worst["age_s"], worst["source"]) == ("bad", "bad", 4.0, "nvml")
            assert (answer["node_id"], answer["boot_id"], answer["uptime_s"]) == ("n1", "boot-1", 77.0)
            (watch,) = answer["collectors"]
            assert (watch["name"], watch["state"], watch["looks"], watch["age_s"]) == ("nvml", "working", 1, 4.0)

    run_virtual(story())

"""Conditions and standings of nodes reach the jobs that are there, once, also over kills; the agent is told why."""

import json
from collections.abc import Awaitable, Callable

import pytest
from planner_rig import JOB, KillAt, Rig

from fault_contracts.commands import StopWorkers
from fault_contracts.faults import Action, Attribution
from fault_contracts.hardware import NodeStanding, NodeStandingChanged
from fault_contracts.health import Component, ConditionCleared, ConditionRaised, DeviceEvidence, Tier
from fault_contracts.payload import Health, Reason
from fault_contracts.recovery import IncidentOpened, NodeFaulted
from fault_contracts.registry import Stream
from service_kit.testing.memory_broker import Trouble
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.virtual_clock import run_virtual

LOSSY = Trouble(publish_lost=0.15, dropped=0.15, duplicated=0.15, delay_s_max=0.3, reordered=0.15)
GONE = "GPU-1 fell off the bus (Xid 79)"


def told(story: Callable[[Rig], Awaitable[None]], **rig: object) -> None:
    async def main() -> None:
        made = Rig(**rig)  # type: ignore[arg-type]
        await story(made)
        await made.end()

    run_virtual(main())


class Ingest:
    """What health-ingest publishes and writes, by hand."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.bus, self.version = rig, MemoryBus(rig.broker, name="ingest"), 0

    async def fails(self, node: str, *, tier: Tier = Tier.FAILURE, condition_id: str = "cond-1", **more: str) -> None:
        raised = ConditionRaised(
            condition_id=condition_id,
            node_id=node,
            component=Component.GPU,
            component_id="GPU-1",
            check="xid_79",
            tier=tier,
            reason=GONE,
            device=DeviceEvidence(rule_id="xid.79", origin=Attribution.HARDWARE, action=Action.REPLACE_NODE),
            raised_at=self.rig.clock.now(),
            **more,
        )
        await self.rig.publish(self.bus, raised, cause=condition_id, ordinal=tier.value)

    async def is_well(self, node: str) -> None:
        cleared = ConditionCleared(
            condition_id="cond-1", node_id=node, check="xid_79", reason="well", cleared_at=self.rig.clock.now()
        )
        await self.rig.publish(self.bus, cleared, cause="cond-1", ordinal="cleared")

    async def stands(self, node: str, fit: Health, sentence: str = "", *, write: bool = True, say: bool = True) -> None:
        self.version += 1
        reasons = (Reason(rule_id="node.device_held", sentence=sentence),) if sentence else ()
        standing = NodeStanding(node_id=node, fit=fit, reasons=reasons, version=self.version)
        if write:
            raw = json.dumps({"v": 1, "standing": standing.model_dump(mode="json")}).encode()
            old = await self.rig.standings.get(node)
            if old is None:
                await self.rig.standings.create(node, raw)
            else:
                await self.rig.standings.update(node, raw, old.revision)
        if say:
            changed = NodeStandingChanged(node_id=node, standing=standing, changed_at=self.rig.clock.now())
            await self.rig.publish(self.bus, changed, cause=node, ordinal=self.version)


def test_a_device_fault_moves_the_gang_to_the_spare_at_once() -> None:
    async def story(rig: Rig) -> None:
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        began_s = rig.clock.monotonic_s()
        await Ingest(rig).fails("b")
        gang = await rig.until_running(2)
        assert rig.clock.monotonic_s() - began_s < 0.3, "nothing on the way waits for a poll"
        assert gang.nodes == ("a", "s")
        [faulted] = rig.stored(NodeFaulted, Stream.JOURNAL)
        assert isinstance(faulted, NodeFaulted)
        assert faulted.condition.condition_id == "cond-1"

    told(story)


def test_a_problem_stops_nothing() -> None:
    async def story(rig: Rig) -> None:
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        await Ingest(rig).fails("b", tier=Tier.PROBLEM)
        await rig.clock.sleep(5)
        assert not rig.stored(StopWorkers)

    told(story)


def test_a_broken_device_stops_the_gang_whosever_process_the_driver_names() -> None:
    async def story(rig: Rig) -> None:
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        await Ingest(rig).fails("b", job_id="another")
        assert "b" not in (await rig.until_running(2)).nodes

    told(story)


@pytest.mark.parametrize("seed", range(3))
def test_on_a_bad_bus_the_faulty_node_is_out_and_no_version_starts_twice(seed: int) -> None:
    async def story(rig: Rig) -> None:
        await rig.begin("a", "b", "s")
        node = (await rig.until_running()).nodes[1]
        await Ingest(rig).fails(node)
        for _ in range(600):
            gang = await rig.gang()
            assert gang is not None
            if gang.members[node].faults:
                break
            await rig.clock.sleep(0.5)
        assert gang.members[node].faults == ("cond-1",)
        assert node not in (await rig.until_running()).nodes
        assert not rig.broken_promises

    told(story, seed=seed, trouble=LOSSY)


@pytest.mark.parametrize("place", ["after_load", "after_decide", "after_persist", "after_clear", "before_ack"])
def test_a_planner_that_is_killed_on_the_way_is_finished_by_the_next(place: str) -> None:
    async def story(rig: Rig) -> None:
        kill = KillAt(place, 10_000)
        await rig.begin("a", "b", "s", failpoints=kill)
        await rig.until_running(1)
        kill.left = 1
        await Ingest(rig).fails("b")
        for _ in range(200):
            if rig.lives[0].dead:
                break
            await rig.clock.sleep(0.1)
        if not rig.lives[0].dead:
            assert place == "after_load", "every other place is on the way"
            return
        rig.planner()
        gang = await rig.until_running(2)
        assert gang.nodes == ("a", "s")
        assert len(rig.stored(IncidentOpened, Stream.JOURNAL)) == 1
        assert len(rig.stored(NodeFaulted, Stream.JOURNAL)) == 1
        assert not rig.broken_promises

    told(story)


def test_a_bad_node_stands_by_with_its_reason_until_it_is_ok() -> None:
    async def story(rig: Rig) -> None:
        ingest = Ingest(rig)
        await ingest.stands("b", Health.BAD, GONE, say=False)
        await rig.begin("a", "b")
        await rig.clock.sleep(3)
        assert not rig.nodes["b"].starts
        question = json.dumps({"node_id": "b", "spec": rig.spec.model_dump(mode="json")}).encode()
        said = await rig.nodes["b"].bus.ask(what="admission", key=JOB, body=question, timeout_s=1)
        assert json.loads(said or b"{}") == {"admitted": True, "reason": f"b is held back: {GONE}"}
        await ingest.stands("b", Health.OK)
        gang = await rig.until_running(1)
        assert gang.nodes == ("a", "b")

    told(story)


def test_a_held_node_is_known_as_such_before_its_report_is_decided() -> None:
    async def story(rig: Rig) -> None:
        await Ingest(rig).stands("c", Health.BAD, GONE, say=False)
        await rig.begin("a")
        await rig.clock.sleep(1)
        question = json.dumps({"node_id": "c", "spec": rig.spec.model_dump(mode="json")}).encode()
        said = await rig.nodes["a"].bus.ask(what="admission", key=JOB, body=question, timeout_s=1)
        assert json.loads(said or b"{}")["reason"] == f"c is held back: {GONE}"

    told(story)


def test_a_condemned_node_comes_back_when_its_fault_is_over_and_the_ledger_lets_it() -> None:
    async def story(rig: Rig) -> None:
        ingest = Ingest(rig)
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        await ingest.fails("b")
        await ingest.stands("b", Health.BAD, GONE)
        await rig.until_running(2)
        await ingest.is_well("b")
        await rig.clock.sleep(1)
        rig.nodes["s"].kill()
        await rig.clock.sleep(10)
        gang = await rig.gang()
        assert gang is not None
        assert gang.phase == "waiting", "b is quarantined"
        await ingest.stands("b", Health.OK)
        gang = await rig.until_running(3)
        assert gang.nodes == ("a", "b")

    told(story)


def test_an_older_standing_that_comes_late_is_not_taken() -> None:
    async def story(rig: Rig) -> None:
        ingest = Ingest(rig)
        await ingest.stands("b", Health.OK, say=False)
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        ingest.version = 5
        await ingest.stands("b", Health.OK, write=False)
        ingest.version = 2
        await ingest.stands("b", Health.BAD, GONE, write=False)
        await rig.clock.sleep(2)
        gang = await rig.gang()
        assert gang is not None
        assert not gang.members["b"].held

    told(story)


def test_a_damaged_record_reads_as_unknown() -> None:
    async def story(rig: Rig) -> None:
        await rig.standings.create("b", b'{"v": 7}')
        await rig.begin("a", "b")
        gang = await rig.until_running(1)
        assert gang.nodes == ("a", "b")

    told(story)


def test_jobs_of_a_node_are_forgotten_with_the_job() -> None:
    async def story(rig: Rig) -> None:
        life = await rig.begin("a", "b")
        await rig.until_running(1)
        nodes = life.planner.duties._nodes
        assert nodes.jobs_on("b") == (JOB,)
        assert nodes.jobs_on("z") == ()
        for node in rig.nodes.values():
            node.leave()
        await rig.clock.sleep(5)
        assert nodes.jobs_on("b") == ()

    told(story)

"""Whole planners on virtual time: lossy buses, killed planners, two at once; every version is started once."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from planner_rig import JOB, KillAt, Killed, Rig

from fault_contracts.agent import AgentPhase
from fault_contracts.commands import EndJob, StartWorkers, StopWorkers
from fault_contracts.recovery import IncidentClosed, IncidentOpened, JobEnded, NodeLost
from fault_contracts.registry import Stream
from service_kit.testing.memory_broker import Trouble
from service_kit.testing.virtual_clock import run_virtual

LOSSY = Trouble(publish_lost=0.15, dropped=0.15, duplicated=0.15, delay_s_max=0.3, reordered=0.15)


def test_one_incident_from_death_to_running() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b")
        await rig.until_running(1)
        rig.nodes["a"].saves(10, 0)
        rig.nodes["b"].saves(10, 1)
        await rig.clock.sleep(1)
        began_s = rig.clock.monotonic_s()
        rig.nodes["a"].rank_dies()
        gang = await rig.until_running(2)
        assert rig.clock.monotonic_s() - began_s < 0.3, "nothing on the way waits for a poll"
        start = rig.stored(StartWorkers)[-1]
        assert isinstance(start, StartWorkers)
        assert start.checkpoint is not None
        assert start.checkpoint.step == 10
        assert start.master_port == 1_001
        assert gang.restart_count == 1
        journal = [type(d.envelope.data).__name__ for d in rig.broker.stored(Stream.JOURNAL)]
        assert journal == ["GangFormed", "IncidentOpened", "RecoveryPlanned", "TrainingResumed", "IncidentClosed"]
        await rig.end()

    run_virtual(story())


def test_lost_agent_is_found_by_pings_and_the_spare_takes_over() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        began_s = rig.clock.monotonic_s()
        rig.nodes["b"].kill()
        gang = await rig.until_running(2)
        took_s = rig.clock.monotonic_s() - began_s
        assert gang.nodes == ("a", "s")
        assert 1.5 < took_s < 10, "three missed heartbeats, then 1.5 s of nobody listening"
        assert len(rig.stored(NodeLost, Stream.JOURNAL)) == 1
        await rig.end()

    run_virtual(story())


def test_agent_that_dies_with_a_rank_is_found_at_once() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        began_s = rig.clock.monotonic_s()
        rig.nodes["b"].kill()
        rig.nodes["a"].rank_dies()
        gang = await rig.until_running(2)
        assert gang.nodes == ("a", "s")
        assert rig.clock.monotonic_s() - began_s < 2.5, "the pings go out with the stop"
        await rig.end()

    run_virtual(story())


def test_cut_off_agent_is_unknown_until_it_has_been_silent_for_long() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        began_s = rig.clock.monotonic_s()
        rig.broker.partitioned.add(rig.nodes["b"].instance_id)
        await rig.clock.sleep(12)
        gang = await rig.gang()
        assert gang is not None
        assert gang.phase == "running", "silence is unknown"
        gang = await rig.until_running(2)
        assert gang.nodes == ("a", "s")
        assert rig.clock.monotonic_s() - began_s > 15
        rig.broker.partitioned.clear()
        await rig.clock.sleep(20)
        assert rig.nodes["b"].running is None, "back on the bus it reads that its place is taken"
        rig.nodes["a"].kill()
        gang = await rig.until_running(3)
        assert gang.nodes == ("b", "s"), "and then it is a spare"
        await rig.end()

    run_virtual(story())


def test_a_cut_off_agent_whose_gang_trains_is_not_lost_and_one_whose_gang_stands_still_is() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        rig.broker.partitioned.add(rig.nodes["b"].instance_id)
        for step in range(1, 61):  # a step needs all ranks: those of b are alive
            await rig.clock.sleep(1)
            rig.nodes["a"].steps(step)
        gang = await rig.gang()
        assert gang is not None
        assert (gang.phase, gang.table.topology_version) == ("running", 1)
        stands_s = rig.clock.monotonic_s()
        gang = await rig.until_running(2)
        assert gang.nodes == ("a", "s")
        assert 10 < rig.clock.monotonic_s() - stands_s < 25, "the last step is 15 s old"
        await rig.end()

    run_virtual(story())


def test_an_agent_that_stays_away_is_lost_in_the_end_also_from_a_gang_that_trains() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        rig.broker.partitioned.add(rig.nodes["b"].instance_id)
        began_s = rig.clock.monotonic_s()
        while (gang := await rig.gang()) is not None and gang.table.topology_version == 1:
            await rig.clock.sleep(1)
            if rig.nodes["a"].running is not None:
                rig.nodes["a"].steps(int(rig.clock.monotonic_s()))
            assert rig.clock.monotonic_s() - began_s < 700
        assert rig.clock.monotonic_s() - began_s > 590
        await rig.end()

    run_virtual(story())


@pytest.mark.parametrize("n", range(1, 40))
def test_planner_killed_between_any_two_steps(n: int) -> None:
    """Any place, counted over a whole incident with a second fault in the middle; the heir finishes it once."""

    async def story() -> None:
        rig = Rig()
        kill = KillAt("", n)
        doomed = await rig.begin("a", "b", failpoints=kill)
        deaths = 0
        for _ in range(800):
            if doomed.dead and len(rig.lives) == 1:
                rig.planner()
            gang = await rig.gang()
            if deaths == 0 and gang and gang.phase == "running":
                deaths = 1
                rig.nodes["a"].rank_dies()
            if deaths == 1 and rig.nodes["b"].running == 2:
                deaths = 2
                rig.nodes["b"].rank_dies()
            await rig.clock.sleep(0.25)
        gang = await rig.until_running()
        assert doomed.dead, "the failpoint was not reached, so nothing was proved"
        versions = rig.versions()
        assert versions == sorted(set(versions)), "a version was started twice"
        assert gang.table.topology_version == max(versions)
        assert gang.restart_count == max(versions) - 1
        assert gang.restart_count == 2
        opened, closed = rig.stored(IncidentOpened, Stream.JOURNAL), rig.stored(IncidentClosed, Stream.JOURNAL)
        assert len(opened) == len(closed)
        assert rig.broken_promises == [], rig.broken_promises
        await rig.end()

    try:
        run_virtual(story())
    except Killed:
        pytest.fail("the kill left the planner's own tasks")


@pytest.mark.parametrize("seed", range(40))
def test_faults_on_a_lossy_bus_end_in_one_consistent_gang(seed: int) -> None:
    async def story() -> None:
        rig = Rig(seed=seed, trouble=LOSSY, nnodes=3)
        random = rig.broker.random
        await rig.begin("a", "b", "c", "s1", "s2", failpoints=KillAt("", random.randint(5, 120)))
        for _ in range(12):
            await rig.clock.sleep(random.uniform(0.1, 20))
            node = rig.nodes[random.choice(sorted(rig.nodes))]
            match random.randint(0, 3):
                case 0 | 1:
                    node.rank_dies()
                case 2:
                    node.kill()
                    await rig.node(node.node_id)
                case 3:
                    node.kill()
                    await rig.clock.sleep(random.uniform(0, 30))
                    await rig.node(node.node_id)
            if all(life.dead for life in rig.lives):
                rig.planner(KillAt("", random.randint(20, 200)))
            if random.random() < 0.1:
                rig.planner()
        rig.planner()
        rig.broker.trouble = Trouble()
        rig.broker.heal()
        await rig.clock.sleep(60)
        gang = await rig.until_running(limit_s=2_000)
        await rig.clock.sleep(60)
        again = await rig.gang()
        assert again is not None
        assert again.table == gang.table, "the gang does not come to rest"
        versions = rig.versions()
        assert [v for v, count in Counter(versions).items() if count > 1] == []
        running = {n.node_id: n.running for n in rig.nodes.values() if n.running is not None}
        assert running == dict.fromkeys(gang.nodes, gang.table.topology_version)
        assert rig.broken_promises == [], rig.broken_promises
        await rig.end()

    run_virtual(story())


def test_two_planners_at_once_make_one_start() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b")
        rig.planner()
        await rig.until_running(1)
        for version in range(1, 6):
            rig.nodes["a"].rank_dies()
            await rig.until_running(version + 1)
        assert rig.versions() == [1, 2, 3, 4, 5, 6]
        assert rig.versions(StopWorkers) == [1, 2, 3, 4, 5]
        await rig.clock.sleep(3)
        leaders = [life.name for life in rig.lives if life.planner.lead.is_leader]
        assert len(leaders) == 1
        await rig.end()

    run_virtual(story())


def test_standby_takes_over_from_a_dead_leader() -> None:
    async def story() -> None:
        rig = Rig()
        leader = await rig.begin("a", "b")
        await leader.known.wait()
        standby = rig.planner()
        await rig.until_running(1)
        assert not standby.planner.lead.is_leader
        leader.kill()
        rig.nodes["a"].rank_dies()
        await rig.until_running(2)
        assert standby.planner.lead.is_leader
        await rig.end()

    run_virtual(story())


def test_planner_that_was_away_at_the_end_tells_the_end() -> None:
    async def story() -> None:
        rig = Rig()
        first = await rig.begin("a", "b")
        await rig.until_running(1)
        first.kill()
        for node in rig.nodes.values():
            node.leave()
        rig.planner()
        await rig.clock.sleep(60)
        assert len(rig.stored(JobEnded, Stream.JOURNAL)) == 1
        assert len(rig.stored(EndJob)) == 1
        await rig.end()

    run_virtual(story())


def test_bus_away_in_the_middle_of_an_incident() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b")
        await rig.until_running(1)
        rig.nodes["a"].rank_dies()
        await rig.clock.sleep(0.01)
        names = [rig.lives[0].name, *(node.instance_id for node in rig.nodes.values())]
        rig.broker.partitioned.update(names)
        await rig.clock.sleep(8)
        rig.broker.partitioned.clear()
        rig.broker.heal()
        gang = await rig.until_running(limit_s=120)
        assert gang.nodes == ("a", "b")
        assert len(rig.versions()) == len(set(rig.versions()))
        assert rig.broken_promises == [], rig.broken_promises
        await rig.end()

    run_virtual(story())


def test_each_job_has_its_own_desk_and_ended_ones_are_forgotten() -> None:
    async def story() -> None:
        rig = Rig()
        life = await rig.begin("a", "b")
        await rig.until_running(1)
        assert life.planner.advance.gang_of(JOB) is not None
        for node in rig.nodes.values():
            node.leave()
        await rig.clock.sleep(5)
        assert life.planner.advance.gang_of(JOB) is None
        assert asyncio.all_tasks(), "the planner itself goes on"
        assert not life.task.done()
        await rig.end()

    run_virtual(story())


def test_an_end_that_is_owed_outlives_the_planner_and_then_the_job_is_forgotten() -> None:
    async def story() -> None:
        rig = Rig()
        doomed = await rig.begin("a", "b")
        await rig.until_running(1)
        for node in rig.nodes.values():
            node.leave()
        await rig.clock.sleep(1)
        report = rig.nodes["a"].reported(AgentPhase.READY)
        came_before = report.model_copy(
            update={"instance_id": "a/2", "reported_at": report.reported_at - timedelta(minutes=5)}
        )
        rig.nodes["a"].send(came_before)
        await rig.clock.sleep(1)
        assert len(rig.stored(EndJob)) == 1
        heir = rig.planner()
        doomed.kill()
        await rig.clock.sleep(60)
        assert len(rig.stored(EndJob)) == 2
        assert heir.planner.advance.gang_of(JOB) is None
        await rig.end()

    run_virtual(story())


def test_heir_keeps_the_deadlines_of_the_dead() -> None:
    async def story() -> None:
        rig = Rig(judge=False)
        doomed = await rig.begin("a", "b")
        await rig.until_running(1)
        await rig.clock.sleep(60)
        rig.nodes["a"].rank_dies()
        await rig.clock.sleep(0.5)
        gang = await rig.gang()
        assert gang is not None
        assert gang.phase == "deciding"
        doomed.kill()
        rig.planner()
        await rig.until_running(2, limit_s=10)
        await rig.end()

    run_virtual(story())

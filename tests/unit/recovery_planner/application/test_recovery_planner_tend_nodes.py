"""The care of nodes beside whole planners on virtual time: jobs leave first, kills and losses change nothing."""

from collections.abc import Awaitable, Callable

import pytest
from planner_rig import KillAt, Rig
from tending_rig import LADDER, Hosts, ask, blames, life_of, stands, told, until

from fault_contracts.cluster_policy import BreakerPolicy, ClusterPolicy, LadderPolicy, PoolPolicy
from fault_contracts.faults import Action, Attribution
from fault_contracts.node_actions import ActionOutcome, NodeAction
from fault_contracts.registry import Stream
from fault_contracts.remediation import BreakerMoved, NodePhase
from recovery_planner.adapters.pool_simulated import SimulatedCloud
from recovery_planner.application import tend_nodes
from recovery_planner.domain.gang_machine import IllegalMove
from recovery_planner.domain.member import Standing
from recovery_planner.domain.node_life import NodeLife
from recovery_planner.domain.node_tend import Tended, tend
from service_kit.testing.memory_broker import Trouble
from service_kit.testing.virtual_clock import run_virtual

LOSSY = Trouble(publish_lost=0.15, dropped=0.15, duplicated=0.15, delay_s_max=0.3, reordered=0.15)
USUAL = ["suspect", "quarantined", "draining", "remediating", "validating", "probation"]


def played(story: Callable[[Rig], Awaitable[None]], **rig: object) -> None:
    async def main() -> None:
        made = Rig(**{"cluster_policy": LADDER, "judge": False, **rig})  # type: ignore[arg-type]
        await story(made)
        assert made.broken_promises == []
        await made.end()

    run_virtual(main())


def test_a_blamed_node_leaves_its_job_is_reset_validated_and_comes_back_to_it() -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        await blames(rig, "b", Action.RESET_GPU)
        gang = await rig.until_running(2)
        assert gang.nodes == ("a", "s")
        await until(rig, "b", NodePhase.PROBATION)
        assert hosts.actions("b") == ["reset_gpu", "validate", "validate"]
        assert hosts.harm == []
        assert told(rig, "b") == USUAL
        await rig.clock.sleep(2)
        gang = await rig.until_running(2)
        member = gang.members["b"]
        assert (member.standing, member.held) == (Standing.PRESENT, "")
        assert "on probation" in member.doubt

    played(story)


async def runs_its_second_generation(rig: Rig) -> None:
    await rig.begin("a", "b")
    await rig.until_running(1)
    rig.nodes["a"].rank_dies()
    await rig.until_running(2)


def test_a_job_without_a_spare_waits_for_its_node_to_be_repaired() -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await rig.begin("a", "b")
        await rig.until_running(1)
        await blames(rig, "b", Action.RESET_GPU)
        gang = await rig.until_running(2)
        assert gang.nodes == ("a", "b")
        assert hosts.actions("b") == ["reset_gpu", "validate", "validate"]
        assert hosts.harm == []

    played(story)


def test_nothing_is_done_to_a_node_while_its_job_runs_on_after_a_late_verdict() -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await runs_its_second_generation(rig)
        await blames(rig, "b", Action.RESET_GPU)
        await until(rig, "b", NodePhase.DRAINING)
        await rig.clock.sleep(120)
        assert hosts.actions("b") == []
        rig.nodes["a"].rank_dies()
        await rig.until_running(3)
        assert hosts.actions("b")[0] == "reset_gpu"
        assert hosts.harm == []

    played(story)


def test_a_users_fault_costs_no_node() -> None:
    async def story(rig: Rig) -> None:
        await Hosts(rig).begin()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        await blames(rig, "b", Action.REPLACE_NODE, attribution=Attribution.USER)
        await rig.clock.sleep(30)
        assert await life_of(rig, "b") is None

    played(story)


def test_a_verdict_that_is_replaced_lets_the_node_go() -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await runs_its_second_generation(rig)
        await blames(rig, "b", Action.RESET_GPU, fault_id="first")
        await until(rig, "b", NodePhase.DRAINING)
        await blames(rig, "b", Action.RESTART_PROCESS, fault_id="second", supersedes="first")
        await until(rig, "b", NodePhase.OK)
        assert hosts.done == []

    played(story)


def test_without_a_policy_nothing_is_done() -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        await blames(rig, "b", Action.RESET_GPU)
        await rig.until_running(2)
        await rig.clock.sleep(30)
        assert (hosts.done, await life_of(rig, "b")) == ([], None)

    played(story, cluster_policy=None)


def test_a_dry_run_tells_and_does_nothing() -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        await blames(rig, "b", Action.REBOOT_NODE)
        await until(rig, "b", NodePhase.SUSPECT)
        await rig.clock.sleep(60)
        assert hosts.done == []
        assert told(rig, "b") == ["suspect", "suspect:dry_run"]

    played(story, cluster_policy=ClusterPolicy(dry_run=True, ladder=LadderPolicy(rounds_min=2)))


def test_the_breaker_lets_one_go_and_tells_of_the_other() -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await rig.begin("a", "b", "s", "t")
        await rig.until_running(1)
        await blames(rig, "a", Action.RESET_GPU, fault_id="one")
        await blames(rig, "b", Action.RESET_GPU, fault_id="two")
        await until(rig, "a", NodePhase.PROBATION)
        assert hosts.actions("b") == []
        moved = [d.envelope.data for d in rig.broker.stored(Stream.JOURNAL)]
        assert [each.state for each in moved if isinstance(each, BreakerMoved)] == ["open"]
        await until(rig, "b", NodePhase.DRAINING, 400)
        rig.nodes["s"].rank_dies()
        await until(rig, "b", NodePhase.PROBATION, 400)
        states = [d.envelope.data for d in rig.broker.stored(Stream.JOURNAL)]
        assert [each.state for each in states if isinstance(each, BreakerMoved)] == ["open", "half_open", "closed"]

    policy = ClusterPolicy(ladder=LadderPolicy(rounds_min=2, retry_s=5), breaker=BreakerPolicy(nodes_max=1, open_s=60))
    played(story, cluster_policy=policy)


POOLED = ClusterPolicy(
    ladder=LadderPolicy(rounds_min=2, retry_s=5),
    pool=PoolPolicy(kind="simulated", delay_s=30, failures_every=3, returns_every=1, wait_s=1_800),
)


def test_a_node_is_replaced_the_same_board_is_refused_and_another_comes() -> None:
    boots: list[tuple[str, str]] = []

    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await stands(rig, "b", uuid="GPU-a", serial="S1")
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        await blames(rig, "b", Action.REPLACE_NODE)
        gone = await until(rig, "b", NodePhase.REPLACED)
        assert gone.wanted is not None
        while not boots:
            await rig.clock.sleep(1)
        assert boots == [("cloud-1", "b")]
        await stands(rig, "cloud-1", uuid="GPU-flashed", serial="S1")
        refused = await until(rig, "cloud-1", NodePhase.LISTED)
        assert "b was given up" in refused.reason.sentence
        while len(boots) < 2:
            await rig.clock.sleep(1)
        await stands(rig, boots[1][0], uuid="GPU-new", serial="S9")
        await until(rig, boots[1][0], NodePhase.PROBATION)
        gone = await until(rig, "b", NodePhase.REPLACED)
        assert gone.successor == boots[1][0]
        assert gone.returned == ("cloud-1",)
        assert hosts.listed == ["GPU-a"], "the ledger has the device"

    def boot(name: str, origin: str) -> None:
        boots.append((name, origin))

    async def main() -> None:
        rig = Rig(cluster_policy=POOLED, judge=False)
        rig.pool = lambda _: SimulatedCloud(POOLED.pool, clock=rig.clock, boot=boot)
        await story(rig)
        await rig.end()

    run_virtual(main())


# ------------------------------------------------------------------------------------------------------- persons


def test_a_person_takes_a_node_out_and_lets_it_go() -> None:
    async def story(rig: Rig) -> None:
        await Hosts(rig).begin()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        said = await ask(rig, "quarantine", "s")
        assert (said["ok"], said["phase"]) == (True, "quarantined")
        rig.nodes["b"].kill()
        await rig.clock.sleep(30)
        gang = await rig.gang()
        assert gang is not None
        assert gang.phase == "waiting", "the spare is out of use"
        said = await ask(rig, "release", "s")
        assert said["ok"], said
        gang = await rig.until_running(2)
        assert gang.nodes == ("a", "s")

    played(story, cluster_policy=None)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"verb": "explode"}, "verb 'explode'"),
        ({"reason": " "}, "reason is missing"),
        ({"by": ""}, "node_id and by are needed"),
        ({"node_id": "nobody"}, "no node 'nobody' is known"),
    ],
)
def test_a_wrong_question_is_answered(asked: dict[str, str], error: str) -> None:
    async def story(rig: Rig) -> None:
        await rig.begin("a", "b")
        await rig.until_running(1)
        said = await ask(rig, **{"verb": "quarantine", "node_id": "a", **asked})
        assert said["ok"] is False
        assert error in str(said["error"])

    played(story)


# --------------------------------------------------------------------------------------------- kills and losses

PLACES = ["care_after_persist", "care_after_publish_each", "care_after_publish"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_planner_killed_anywhere_goes_on_with_the_story(place: str, n: int) -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await rig.begin("a", "b", "s", failpoints=KillAt(place, n))
        await rig.until_running(1)
        await blames(rig, "b", Action.RESET_GPU)
        while not rig.lives[0].dead:
            await rig.clock.sleep(0.5)
        rig.planner()
        await until(rig, "b", NodePhase.PROBATION)
        assert hosts.actions("b") == ["reset_gpu", "validate", "validate"], "each order was carried out once"
        assert hosts.harm == []

    played(story)


@pytest.mark.parametrize("seed", range(4))
def test_losses_and_a_host_role_that_is_busy_change_nothing(seed: int) -> None:
    busy = iter([ActionOutcome.REFUSED] + [ActionOutcome.DONE] * 50)

    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig, lambda _: next(busy)).begin()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        await blames(rig, "b", Action.REBOOT_NODE)
        await until(rig, "b", NodePhase.PROBATION, 4_000)
        assert hosts.harm == []
        assert NodeAction.REBOOT in {order.action for order in hosts.done}

    played(story, seed=seed, trouble=LOSSY)


def test_two_planners_tend_a_node_once() -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await rig.begin("a", "b", "s")
        rig.planner()
        await rig.until_running(1)
        await blames(rig, "b", Action.RESET_GPU)
        await until(rig, "b", NodePhase.REMEDIATING)
        await rig.lives[0].stop()
        await until(rig, "b", NodePhase.PROBATION)
        assert hosts.actions("b").count("reset_gpu") == 1

    played(story)


def test_a_node_is_emptied_within_a_time_and_its_job_goes_on_elsewhere() -> None:
    async def story(rig: Rig) -> None:
        await Hosts(rig).begin()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        said = await ask(rig, "drain", "b", within_s="60")
        assert said["phase"] == "draining"
        await rig.clock.sleep(50)
        gang = await rig.gang()
        assert gang is not None
        assert gang.phase == "running"
        gang = await rig.until_running(2)
        assert gang.nodes == ("a", "s")
        assert gang.restarts == ()
        life = await until(rig, "b", NodePhase.QUARANTINED)
        assert life.by == "alice"
        assert rig.nodes["b"].running is None

    played(story)


def test_the_third_strike_replaces_the_node_and_lists_its_device() -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await stands(rig, "b", uuid="GPU-a", serial="S1")
        await rig.begin("a", "b")
        for strike in (1, 2, 3):
            await rig.until_running(strike)
            await blames(rig, "b", Action.RESET_GPU, version=strike)
            if strike < 3:
                await rig.until_running(strike + 1)
                await until(rig, "b", NodePhase.PROBATION)
        gone = await until(rig, "b", NodePhase.REPLACED)
        assert hosts.actions("b") == ["reset_gpu", "validate", "validate", "reboot", "validate", "validate"]
        assert gone.listed == ("id:GPU-a", "board:S1:10de:2330")
        while not hosts.listed:
            await rig.clock.sleep(1)
        assert hosts.listed == ["GPU-a"]
        await stands(rig, "fresh", uuid="GPU-other", serial="S1")
        assert "b was given up" in (await until(rig, "fresh", NodePhase.LISTED)).reason.sentence
        assert hosts.harm == []

    async def main() -> None:
        rig = Rig(cluster_policy=POOLED, judge=False)
        rig.pool = lambda _: SimulatedCloud(POOLED.pool, clock=rig.clock)
        await story(rig)
        await rig.end()

    run_virtual(main())


def test_a_defect_in_the_care_of_one_node_does_not_end_the_care_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(life: NodeLife, *args: object, **more: object) -> Tended:
        if life.node_id == "b":
            raise IllegalMove("a defect")
        return tend(life, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tend_nodes, "tend", broken)

    async def story(rig: Rig) -> None:
        await Hosts(rig).begin()
        await rig.begin("a", "b", "s", "t")
        await rig.until_running(1)
        await blames(rig, "b", Action.RESET_GPU, fault_id="one")
        await rig.clock.sleep(5)
        await blames(rig, "a", Action.RESET_GPU, fault_id="two", version=2)
        await until(rig, "a", NodePhase.PROBATION)
        assert rig.lives[0].planner.duties.failed() is None

    played(story)

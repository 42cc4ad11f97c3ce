"""Nodes fail by dice, planners are killed anywhere, messages are lost, the cloud hands bad machines out again.

Whatever happens: nothing is done to a node with ranks, no listed device works again, and every story ends.
"""

import random

import pytest
from planner_rig import KillAt, Killed, Rig
from tending_rig import Hosts, ask, blames, life_of, stands

from fault_contracts.cluster_policy import BreakerPolicy, ClusterPolicy, LadderPolicy, PoolPolicy
from fault_contracts.faults import Action
from fault_contracts.node_actions import ActionOutcome, OrderNodeAction
from fault_contracts.registry import Stream
from fault_contracts.remediation import NodePhase
from recovery_planner.adapters.pool_simulated import SimulatedCloud
from recovery_planner.domain.node_life import NodeLife
from service_kit.errors import TransientError
from service_kit.testing.memory_broker import Trouble
from service_kit.testing.virtual_clock import run_virtual

POLICY = ClusterPolicy(
    ladder=LadderPolicy(rounds_min=2, retry_s=5, reset_gpu_s=60, reboot_node_s=120, validate_s=60),
    breaker=BreakerPolicy(share_max=0.5, open_s=60),
    pool=PoolPolicy(kind="simulated", delay_s=20, failures_every=3, returns_every=2, wait_s=600),
)
LOSSY = Trouble(publish_lost=0.1, dropped=0.1, duplicated=0.1, delay_s_max=0.3, reordered=0.1)
PLACES = ("care_after_persist", "care_after_publish_each", "care_after_publish", "after_persist", "after_clear", "")
ACTIONS = (Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE)


class Storm:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        trouble = LOSSY if self.dice.random() < 0.7 else None
        self.rig = Rig(seed=seed, trouble=trouble, cluster_policy=POLICY, judge=True)
        self.boots: list[tuple[str, str]] = []
        self.serials = {node: f"S{node}" for node in "abst"}
        cloud = SimulatedCloud(POLICY.pool, clock=self.rig.clock, boot=lambda *told: self.boots.append(told))
        self.rig.pool = lambda _: cloud
        self.hosts = Hosts(self.rig, self._ends)

    def _ends(self, order: OrderNodeAction) -> ActionOutcome:
        del order
        return self.dice.choice([*[ActionOutcome.DONE] * 4, ActionOutcome.FAILED, ActionOutcome.REFUSED])

    async def play(self) -> None:
        rig, dice = self.rig, self.dice
        await self.hosts.begin()
        for node, serial in self.serials.items():
            await stands(rig, node, uuid=f"GPU-{node}", serial=serial)
        await rig.begin("a", "b", "s", "t", failpoints=KillAt(dice.choice(PLACES), dice.randrange(1, 40)))
        for number in range(dice.randrange(4, 14)):
            await rig.clock.sleep(dice.choice((0.2, 1, 5, 30, 90)))
            await self._one(f"fault-{number}", dice.choice("abst"))
            await self._boot()
        rig.planner()
        lives = await self._rest()
        assert self.hosts.harm == []
        assert rig.broken_promises == []
        letters = [letter.envelope.data for letter in rig.broker.stored(Stream.DLQ)]
        # ReaderDied: handled, and each acknowledgement was lost with a planner or on the way. No handler refused it.
        assert [letter for letter in letters if letter.error != "ReaderDied"] == []
        self._check_listed(lives)

    async def _one(self, fault_id: str, node: str) -> None:
        rig, dice = self.rig, self.dice
        leads = [life for life in rig.lives if not life.dead]
        if not leads or (len(leads) < 2 and dice.random() < 0.2):
            rig.planner(KillAt(dice.choice(PLACES), dice.randrange(1, 60)) if dice.random() < 0.4 else None)
        what = dice.random()
        gang = await rig.gang()
        if what < 0.5 and gang is not None and gang.table.topology_version:
            version = gang.table.topology_version
            await blames(rig, node, dice.choice(ACTIONS), version=version, gpu=f"GPU-{node}", fault_id=fault_id)
        elif what < 0.65 and rig.nodes[node].running is not None:
            rig.nodes[node].rank_dies()
        elif what < 0.75:
            try:
                await ask(rig, dice.choice(["drain", "quarantine", "release"]), node, within_s="30")
            except (TransientError, AssertionError, Killed):
                pass  # no planner leads just now, or it died over the question

    async def _boot(self) -> None:
        """Machines that the cloud started tell what is in them: the same board as before, under another uuid."""
        while self.boots:
            name, origin = self.boots.pop(0)
            self.serials[name] = self.serials.get(origin, f"N{name}")
            await stands(self.rig, name, uuid=f"GPU-x{name}", serial=self.serials[name])

    async def _rest(self) -> list[NodeLife]:
        """Every record, once nothing is to be done any more."""
        lives: list[NodeLife] = []
        for _ in range(400):
            await self.rig.clock.sleep(10)
            if all(life.dead for life in self.rig.lives):
                self.rig.planner()
            await self._boot()
            found = [await life_of(self.rig, node) for node in list(self.serials)]
            lives = [life for life in found if life is not None]
            # A job that runs may keep a node that is to be emptied; a probation takes days.
            waits = (NodePhase.PROBATION, NodePhase.DRAINING)
            if all(life.at_rest or life.phase in waits for life in lives):
                return lives
        raise AssertionError([f"{life.node_id} is {life.phase}: {life.reason.sentence}" for life in lives])

    def _check_listed(self, lives: list[NodeLife]) -> None:
        """By what is built in, whatever the records say of it."""
        bad = {self.serials[life.node_id]: life.node_id for life in lives if life.listed}
        for life in lives:
            works = life.phase in (NodePhase.OK, NodePhase.PROBATION) and not life.vouched
            origin = bad.get(self.serials[life.node_id], life.node_id)
            assert not works or origin == life.node_id, f"{life.node_id} works with the board of {origin}"


@pytest.mark.parametrize("seed", range(12))
def test_every_story_ends_and_nothing_is_harmed(seed: int) -> None:
    async def main() -> None:
        storm = Storm(seed)
        await storm.play()
        await storm.rig.end()

    run_virtual(main())

"""Whatever comes in whatever order: limits hold, nothing is done to a node with ranks, and every story ends."""

import random
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from node_ward import Ward, blame, standing

from fault_contracts.cluster_policy import BreakerPolicy, ClusterPolicy, LadderPolicy, PoolPolicy
from fault_contracts.faults import Action
from fault_contracts.node_actions import ActionOutcome, NodeAction
from fault_contracts.payload import Health, Reason
from fault_contracts.remediation import NodePhase
from recovery_planner.domain.breaker import share_limit
from recovery_planner.domain.node_life import NodeLife
from recovery_planner.domain.node_person import NodeVerb, PersonAsked
from recovery_planner.domain.node_replacement import (
    ArrivalRefused,
    ArrivalTaken,
    LedgerTold,
    NodeArrived,
    PoolFailed,
    PoolNamed,
    PoolRefused,
    PoolTook,
)
from recovery_planner.domain.node_story import BlameWithdrawn, NodeBlamed
from recovery_planner.domain.node_tend import NodeLooked

NODES = [f"n{number}" for number in range(10)]
POLICY = ClusterPolicy(
    ladder=LadderPolicy(rounds_min=2, retry_s=5, suspect_s=120),
    breaker=BreakerPolicy(share_max=0.3, nodes_max=4, window_s=600, open_s=120),
    pool=PoolPolicy(kind="simulated", wait_s=600, requests_max=3),
)
ACTIONS = (Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE)
OUTCOMES = (ActionOutcome.DONE, ActionOutcome.FAILED, ActionOutcome.REFUSED)


class Storm:
    """A ward in which everything happens by dice."""

    def __init__(self, seed: int, *, persons: bool) -> None:
        self.dice = random.Random(seed)
        self.ward = Ward(POLICY, known=len(NODES), pool=True)
        self.persons = persons
        self.counter = 0

    def run(self, events: int) -> None:
        for _ in range(events):
            self.ward.now += timedelta(seconds=self.dice.choice((0.5, 3, 20, 90)))
            self.ward.told = self.dice.random() < 0.8
            node = self.dice.choice(NODES)
            if self.dice.random() < 0.2:
                self.ward.occupied[node] = ("llm",) if self.dice.random() < 0.5 else ()
            if self.dice.random() < 0.2:
                self.ward.standings[node] = standing(node, self.dice.choice((Health.OK, Health.BAD)), devices=())
            self.one(node)
            self.check()

    def one(self, node: str) -> None:
        self.counter += 1
        ward, dice, life = self.ward, self.dice, self.ward.lives.get(node)
        orders = len(ward.orders)
        match dice.randrange(9):
            case 0 | 1:
                fault = blame(
                    dice.choice(ACTIONS), evidence_id=f"fault-{dice.randrange(self.counter + 1)}", gpu_uuid=""
                )
                ward.feed(NodeBlamed(blame=fault, observed=dice.random() < 0.1), node)
            case 2:
                ward.feed(BlameWithdrawn(evidence_id=f"fault-{dice.randrange(self.counter + 1)}", sentence="no"), node)
            case 3 | 4 if life is not None and [each for each in ward.orders if each.node_id == node]:
                ward.answer(dice.choice(OUTCOMES), "node_action.busy", node)
            case 5:
                ward.feed(dice.choice((PoolTook(), PoolRefused(sentence="no"))), node)
            case 6 if life is not None and life.wanted is not None:
                self.pool(node, life)
            case 7 if self.persons:
                ward.feed(PersonAsked(verb=dice.choice(list(NodeVerb)), by="alice", sentence="why not"), node)
            case _:
                ward.feed(NodeLooked(), node)
        for order in ward.orders[orders:]:
            if order.action is not NodeAction.VALIDATE:
                assert not ward.occupied.get(order.node_id), "ranks are there"
                assert ward.told, "a gang may not know"

    def pool(self, node: str, life: NodeLife) -> None:
        assert life.wanted is not None
        request, came = life.wanted.request_id, life.wanted.came
        if not came:
            self.counter += 1
            named = PoolNamed(request_id=request, node_id=f"new-{self.counter}")
            self.ward.feed(self.dice.choice((named, PoolFailed(request_id=request, sentence="none"))), node)
        elif self.dice.random() < 0.5:
            self.ward.feed(ArrivalRefused(node_id=came, reason=Reason(rule_id="x", sentence="listed")), node)
        else:
            self.ward.feed(NodeArrived(predecessor=node), came)
            self.ward.feed(ArrivalTaken(node_id=came), node)

    def check(self) -> None:
        ward = self.ward
        for life in ward.lives.values():
            if life.phase is NodePhase.OK:
                assert life.operation is None, "nothing is under way on a node that works"
            assert (life.wanted is None) or life.phase is NodePhase.REPLACED
        if self.persons:
            return
        # A new node in its gate is out of use and was not taken; all others were.
        taken = [each for each in ward.lives.values() if each.counts_as_out and not each.predecessor]
        assert len(taken) <= share_limit(POLICY.breaker, ward.known)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_limits_hold_in_a_storm(seed: int) -> None:
    Storm(seed, persons=False).run(150)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_every_story_ends_once_faults_stop(seed: int) -> None:
    storm = Storm(seed, persons=True)
    storm.run(120)
    ward = storm.ward
    ward.told, ward.occupied, ward.standings = True, {}, {}
    for _ in range(150):
        ward.now += timedelta(seconds=300)
        for node in list(ward.lives):
            life = ward.feed(NodeLooked(), node)
            if life.operation is not None and life.operation.action == "replace_node":
                ward.feed(PoolTook(), node)
            for device in life.ledger_owed:
                ward.feed(LedgerTold(device_id=device, sentence="listed"), node)
    for life in ward.lives.values():
        rests = life.at_rest or life.phase is NodePhase.PROBATION
        assert rests, f"{life.node_id} is {life.phase}: {life.reason.sentence}"


def test_an_event_that_comes_twice_changes_nothing_the_second_time() -> None:
    ward = Ward(POLICY, pool=True)
    twice = NodeBlamed(blame=blame())
    once = ward.feed(twice)
    said = len(ward.said)
    again = ward.feed(twice)
    assert again == once
    assert len(ward.said) == said

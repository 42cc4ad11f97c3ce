"""The life of a node from the first doubt to its return or its replacement, one event after the other."""

from datetime import timedelta

import pytest
from node_ward import GPU, LADDER, Ward, blame, standing

from fault_contracts.cluster_policy import BreakerPolicy, ClusterPolicy, LadderPolicy, PoolPolicy, ProbationPolicy
from fault_contracts.faults import Action
from fault_contracts.hardware import HeldDevice
from fault_contracts.node_actions import ActionOutcome, NodeAction
from fault_contracts.payload import Health, Reason
from fault_contracts.remediation import BreakerMoved, NodePhase, Rung
from recovery_planner.domain.node_life import fit_of_life
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

DONE, FAILED, REFUSED = ActionOutcome.DONE, ActionOutcome.FAILED, ActionOutcome.REFUSED
BACK = (DONE, DONE, DONE)
"""One rung and two validations."""
DAY_S = 86_400.0
POOLED = ClusterPolicy(
    ladder=LadderPolicy(rounds_min=2), pool=PoolPolicy(kind="simulated", wait_s=3_600, requests_max=2)
)


def replaced(ward: Ward) -> Ward:
    ward.blamed(Action.REPLACE_NODE)
    ward.feed(PoolTook())
    return ward


# ------------------------------------------------------------------------------------------------- the usual story


def test_a_node_is_drained_reset_validated_and_on_probation() -> None:
    ward = Ward()
    ward.standings["n1"] = standing()
    ward.occupied["n1"] = ("llm",)
    assert ward.blamed().phase is NodePhase.DRAINING
    assert ward.later(60).phase is NodePhase.DRAINING, "ranks are there"
    assert ward.orders == []
    ward.occupied.clear()
    assert ward.later(1).phase is NodePhase.REMEDIATING
    assert (ward.orders[0].action, ward.orders[0].gpu_uuid) == (NodeAction.RESET_GPU, GPU)
    assert ward.orders[0].boot_id == "boot-1"
    life = ward.through(BACK)
    assert life.phase is NodePhase.PROBATION
    assert [order.action for order in ward.orders[1:]] == [NodeAction.VALIDATE, NodeAction.VALIDATE]
    assert "on probation" in fit_of_life(life, dry_run=False).doubt
    assert ward.later(8 * DAY_S).phase is NodePhase.OK


def test_nothing_is_done_before_every_gang_knows() -> None:
    ward = Ward()
    ward.told = False
    assert ward.blamed().phase is NodePhase.DRAINING
    ward.told = True
    assert ward.later(1).phase is NodePhase.REMEDIATING


def test_ranks_that_come_back_hold_up_the_order() -> None:
    ward = Ward()
    ward.blamed()
    ward.occupied["n1"] = ("llm",)
    assert ward.answer(FAILED).rung is Rung.REBOOT_NODE
    ward.later(60)
    assert [order.action for order in ward.orders] == [NodeAction.RESET_GPU]
    ward.occupied.clear()
    ward.later(1)
    assert ward.orders[-1].action is NodeAction.REBOOT


def test_each_failure_costs_the_next_rung_and_the_ladder_ends_with_a_person() -> None:
    ward = Ward()
    ward.blamed()
    life = ward.through((FAILED, FAILED))
    assert [order.action for order in ward.orders] == [NodeAction.RESET_GPU, NodeAction.REBOOT]
    assert life.phase is NodePhase.LISTED
    assert "no pool" in life.reason.sentence
    assert life.ledger_owed == (GPU,)


def test_a_gate_that_finds_something_costs_the_next_rung() -> None:
    ward = Ward()
    ward.blamed()
    life = ward.through((DONE, DONE, FAILED))
    assert life.phase is NodePhase.REMEDIATING
    assert life.rung is Rung.REBOOT_NODE


def test_a_fault_on_probation_goes_a_rung_up_and_the_third_replaces() -> None:
    ward = Ward(POOLED, pool=True)
    for number, rung in enumerate((Rung.RESET_GPU, Rung.REBOOT_NODE), start=1):
        ward.blamed(evidence_id=f"fault-{number}")
        assert ward.lives["n1"].rung is rung
        assert ward.through(BACK).phase is NodePhase.PROBATION
        ward.now += timedelta(days=1)
    life = ward.blamed(evidence_id="fault-3")
    assert life.rung is Rung.REPLACE_NODE
    life = ward.feed(PoolTook())
    assert life.phase is NodePhase.REPLACED
    assert life.listed == (f"id:{GPU}",)


def test_stories_that_are_long_ago_count_no_more() -> None:
    policy = ClusterPolicy(
        ladder=LadderPolicy(rounds_min=2, strikes_max=1.5), probation=ProbationPolicy(length_s=60, half_life_s=60)
    )
    ward = Ward(policy)
    ward.blamed()
    ward.through(BACK)
    ward.later(3_600)
    assert ward.blamed(evidence_id="fault-2").rung is Rung.RESET_GPU


# ------------------------------------------------------------------------------------------------ outcomes of orders


def test_an_order_that_is_not_permitted_is_not_repeated() -> None:
    ward = Ward()
    ward.blamed()
    life = ward.answer(REFUSED, "node_action.not_allowed")
    assert life.rung is Rung.REBOOT_NODE


def test_a_refusal_that_may_pass_is_repeated_and_not_for_ever() -> None:
    ward = Ward()
    ward.blamed()
    for tries in (1, 2, 3):
        assert len(ward.orders) == tries
        assert ward.lives["n1"].rung is Rung.RESET_GPU
        ward.answer(REFUSED, "node_action.busy")
        ward.later(31)
    assert ward.lives["n1"].rung is Rung.REBOOT_NODE


def test_a_reset_without_an_answer_is_not_repeated() -> None:
    ward = Ward()
    ward.blamed()
    assert ward.later(361).rung is Rung.REBOOT_NODE


def test_an_answer_to_another_order_changes_nothing() -> None:
    ward = Ward()
    ward.blamed()
    ward.later(361)  # the reboot is under way
    before = ward.lives["n1"]
    ward.said = [ward.orders[0]]
    assert ward.answer(DONE) == before


def test_clean_validations_do_not_help_while_its_standing_is_bad() -> None:
    ward = Ward()
    ward.blamed()
    ward.standings["n1"] = standing(fit=Health.BAD)
    assert ward.through(BACK).phase is NodePhase.VALIDATING
    life = ward.later(1_201)
    assert life.rung is Rung.REBOOT_NODE
    ward.standings["n1"] = standing()
    assert ward.through(BACK).phase is NodePhase.PROBATION


# ------------------------------------------------------------------------------------------- evidence comes and goes


def test_the_same_evidence_begins_no_second_story() -> None:
    ward = Ward()
    ward.blamed()
    ward.through(BACK)
    life = ward.blamed()
    assert (life.phase, life.story) == (NodePhase.PROBATION, 1)


def test_a_verdict_joins_the_story_that_its_condition_began() -> None:
    ward = Ward()
    ward.occupied["n1"] = ("llm",)
    ward.blamed(evidence_id="condition-1")
    named = blame(Action.REPLACE_NODE, evidence_id="fault-1")
    life = ward.feed(NodeBlamed(blame=named))
    assert life.story == 1
    assert life.blame is not None
    assert (life.blame.action, life.blame.fault_id) == (Action.REPLACE_NODE, "fault-1")


def test_a_verdict_that_is_taken_back_lets_the_node_go_if_nothing_was_done() -> None:
    ward = Ward()
    ward.occupied["n1"] = ("llm",)
    ward.blamed()
    life = ward.feed(BlameWithdrawn(evidence_id="fault-1", sentence="the user's own fault after all"))
    assert (life.phase, life.score) == (NodePhase.OK, 0.0)
    ward.occupied.clear()
    ward.blamed(evidence_id="fault-2")
    life = ward.feed(BlameWithdrawn(evidence_id="fault-2", sentence="too late"))
    assert life.phase is NodePhase.REMEDIATING


def test_a_held_device_is_read_from_the_standing() -> None:
    ward = Ward(POOLED, pool=True)
    held = (HeldDevice(device_id=GPU, reason="three strikes"),)
    ward.standings["n1"] = standing(fit=Health.BAD, held=held)
    life = ward.feed(NodeLooked())
    assert life.rung is Rung.REPLACE_NODE
    assert life.blame is not None
    assert "three strikes" in life.blame.sentence


def test_without_a_ladder_nothing_is_done() -> None:
    ward = Ward(ClusterPolicy())
    assert ward.blamed(Action.REPLACE_NODE).phase is NodePhase.OK
    assert ward.said == []


# ------------------------------------------------------------------------------------------- dry run, observe, breaker


def test_a_dry_run_says_what_it_would_do_and_does_nothing() -> None:
    ward = Ward(ClusterPolicy(ladder=LadderPolicy(rounds_min=2), dry_run=True))
    life = ward.blamed()
    assert life.phase is NodePhase.SUSPECT
    assert fit_of_life(life, dry_run=True).held == fit_of_life(life, dry_run=True).doubt == ""
    for _ in range(200):
        ward.later(60)
    assert ward.orders == []
    assert [said.withheld_by for said in ward.journal if said.withheld_by] == ["dry_run"]
    assert ward.lives["n1"].phase is NodePhase.OK, "it is not suspect for ever"


def test_a_job_that_observes_costs_no_node() -> None:
    ward = Ward()
    life = ward.feed(NodeBlamed(blame=blame(), observed=True))
    assert life.phase is NodePhase.OK
    assert [said.withheld_by for said in ward.journal] == ["observe"]


def test_the_breaker_keeps_the_node_and_says_so_loudly() -> None:
    ward = Ward(known=10)
    ward.blamed(node_id="n1")
    ward.occupied["n2"] = ("llm",)
    life = ward.blamed(node_id="n2", evidence_id="fault-2")
    assert life.phase is NodePhase.SUSPECT
    assert [said.withheld_by for said in ward.journal if said.node_id == "n2" and said.withheld_by] == ["breaker"]
    assert [moved.state for moved in ward.said if isinstance(moved, BreakerMoved)] == ["open"]
    ward.through(BACK)
    ward.now += (life.deadline_at or ward.now) - ward.now
    assert ward.later(1_800, "n2").phase is NodePhase.DRAINING, "half open by itself"
    assert ward.lives["n2"].on_trial


def test_a_trial_that_comes_back_closes_the_breaker() -> None:
    policy = ClusterPolicy(ladder=LadderPolicy(rounds_min=2), breaker=BreakerPolicy(nodes_max=1, open_s=60))
    ward = Ward(policy, known=100)
    ward.blamed(node_id="n1")
    ward.through(BACK, "n1")
    ward.blamed(node_id="n2", evidence_id="fault-2")
    ward.later(61, "n2")
    ward.through(BACK, "n2")
    assert ward.breaker.state == "closed"


# --------------------------------------------------------------------------------------------------- replacement


def test_a_replacement_is_named_judged_and_taken() -> None:
    ward = replaced(Ward(POOLED, pool=True))
    wanted = ward.lives["n1"].wanted
    assert wanted is not None
    assert ward.lives["n1"].counts_as_out
    ward.feed(PoolNamed(request_id=wanted.request_id, node_id="n9"))
    ward.feed(NodeArrived(predecessor="n1"), "n9")
    life = ward.feed(ArrivalTaken(node_id="n9"))
    assert (life.successor, life.counts_as_out) == ("n9", False)
    assert ward.lives["n9"].phase is NodePhase.VALIDATING
    assert ward.through((DONE, DONE), "n9").phase is NodePhase.PROBATION


def test_the_same_bad_hardware_is_refused_and_another_is_asked_for() -> None:
    ward = replaced(Ward(POOLED, pool=True))
    first = ward.lives["n1"].wanted
    assert first is not None
    ward.feed(PoolNamed(request_id=first.request_id, node_id="n9"))
    bad = Reason(rule_id="pool.device_listed", sentence="n9 carries GPU-1, with which n1 was given up")
    life = ward.feed(ArrivalRefused(node_id="n9", reason=bad))
    assert life.returned == ("n9",)
    assert life.wanted is not None
    assert life.wanted.request_id != first.request_id
    assert any("n9 is refused" in said.reason.sentence for said in ward.journal)


def test_a_pool_that_fails_is_asked_again_within_the_limit() -> None:
    ward = replaced(Ward(POOLED, pool=True))
    for _ in range(2):
        wanted = ward.lives["n1"].wanted
        assert wanted is not None
        ward.feed(PoolFailed(request_id=wanted.request_id, sentence="no capacity"))
    life = ward.lives["n1"]
    assert life.wanted is None
    assert life.at_rest is False, "the ledger is still to be told"
    assert "2 requests are the limit" in life.reason.sentence


def test_a_pool_that_never_delivers_is_not_waited_for_for_ever() -> None:
    ward = replaced(Ward(POOLED, pool=True))
    life = ward.later(3_601)
    assert life.wanted is None
    assert "delivered no fit node" in life.reason.sentence
    assert ward.feed(LedgerTold(device_id=GPU, sentence="listed")).at_rest


def test_a_pool_that_does_not_take_the_node_back() -> None:
    ward = Ward(POOLED, pool=True)
    ward.blamed(Action.REPLACE_NODE)
    assert ward.feed(PoolRefused(sentence="not ours")).phase is NodePhase.LISTED


def test_a_listed_device_does_not_work_under_another_name() -> None:
    ward = Ward(POOLED, pool=True)
    ward.standings["n1"] = standing()
    replaced(ward)
    ward.standings["fresh"] = standing("fresh")
    life = ward.feed(NodeLooked(), "fresh")
    assert life.phase is NodePhase.LISTED
    assert "n1 was given up" in life.reason.sentence


def test_a_new_node_that_fails_its_gate_goes_back_to_the_pool() -> None:
    ward = Ward(POOLED, pool=True)
    ward.feed(NodeArrived(predecessor="n1"), "n9")
    assert ward.answer(FAILED, node_id="n9").rung is Rung.REPLACE_NODE


# -------------------------------------------------------------------------------------------------------- persons


def asked(verb: NodeVerb) -> PersonAsked:
    return PersonAsked(verb=verb, by="alice", sentence="fans are loud")


@pytest.mark.parametrize("policy", [LADDER, ClusterPolicy()])
def test_a_person_quarantines_and_the_ladder_leaves_it_alone(policy: ClusterPolicy) -> None:
    ward = Ward(policy)
    life = ward.feed(asked(NodeVerb.QUARANTINE))
    assert (life.phase, life.by) == (NodePhase.QUARANTINED, "alice")
    assert "fans are loud" in fit_of_life(life, dry_run=False).held
    ward.later(DAY_S)
    ward.blamed()
    assert ward.lives["n1"].phase is NodePhase.QUARANTINED
    assert ward.orders == []


def test_a_person_drains_and_may_have_the_node_when_it_is_empty() -> None:
    ward = Ward()
    ward.occupied["n1"] = ("llm",)
    assert ward.feed(asked(NodeVerb.DRAIN)).phase is NodePhase.DRAINING
    ward.occupied.clear()
    life = ward.later(1)
    assert (life.phase, life.by) == (NodePhase.QUARANTINED, "alice")


def test_a_release_leads_through_the_gate_where_there_is_one() -> None:
    ward = Ward()
    ward.feed(asked(NodeVerb.QUARANTINE))
    assert ward.feed(asked(NodeVerb.RELEASE)).phase is NodePhase.VALIDATING
    assert ward.through((DONE, DONE)).phase is NodePhase.PROBATION
    free = Ward(ClusterPolicy())
    free.feed(asked(NodeVerb.QUARANTINE))
    assert free.feed(asked(NodeVerb.RELEASE)).phase is NodePhase.OK


def test_whoever_is_released_is_not_taken_again_for_what_was_known() -> None:
    ward = Ward(ClusterPolicy(ladder=LadderPolicy(rounds_min=0)))
    held = (HeldDevice(device_id=GPU, reason="three strikes"),)
    ward.standings["n1"] = standing(fit=Health.BAD, held=held)
    ward.feed(NodeLooked())
    assert ward.lives["n1"].phase is NodePhase.LISTED
    assert ward.feed(asked(NodeVerb.RELEASE)).phase is NodePhase.OK
    assert ward.later(60).phase is NodePhase.OK


def test_nobody_takes_a_node_out_of_a_reset() -> None:
    ward = Ward()
    ward.blamed()
    assert ward.feed(asked(NodeVerb.RELEASE)).phase is NodePhase.REMEDIATING
    assert ward.reasons[-1].rule_id == "person.refused"

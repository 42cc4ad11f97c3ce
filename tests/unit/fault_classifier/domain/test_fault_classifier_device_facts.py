"""Each rule about a device once where it holds, and what it says against the deaths beside it."""

from datetime import UTC, datetime

import pytest
from judge_story import Judge, died, lost, lost_peer, raised, verdict_on

from fault_classifier.domain.evidence import DEVICES_MAX, DeviceFault, Generation, Note
from fault_classifier.domain.intake import add, compact, from_node_fault
from fault_contracts.faults import Action, Attribution, FaultClassified
from fault_contracts.health import Component, ConditionRaised, DeviceEvidence, Tier
from fault_contracts.payload import Reason
from fault_contracts.recovery import NodeFaulted

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def told(check: str = "xid_79", **more: object) -> NodeFaulted:
    """The planner's word that a device of node-1 failed."""
    xid = int(check.removeprefix("xid_")) if check.startswith("xid_") else None
    evidence = {"origin": "hardware", "action": "replace_node", "gpu_uuid": "GPU-1", "rule_id": "row", "xid": xid}
    condition = ConditionRaised(
        condition_id=f"cond-{check}",
        node_id="node-1",
        component=Component.GPU,
        component_id="GPU-1",
        check=check,
        tier=Tier.FAILURE,
        reason="it broke",
        device=DeviceEvidence.model_validate(evidence | more),
        raised_at=NOON,
    )
    return NodeFaulted(
        job_id="job",
        node_id="node-1",
        topology_version=1,
        condition=condition,
        reason=Reason(rule_id="node.fault", sentence="it broke"),
        faulted_at=NOON,
    )


def device(check: str = "xid_79", **more: object) -> DeviceFault:
    piece = from_node_fault(told(check, **more))
    assert isinstance(piece, DeviceFault)
    return piece


def rule_of(verdict: FaultClassified) -> str:
    return verdict.reasons[0].rule_id


@pytest.mark.parametrize(
    ("check", "family"),
    [
        ("gpu_bus_silent", "gpu_lost"),
        ("gpu_ecc_novel", "gpu_memory"),
        ("nvlink_novel", "nvlink"),
        ("gpu_slowdown_novel", "gpu_thermal"),
        ("nic_novel", "nic"),
        ("gpu_power_smoothing", "device_fault"),
    ],
)
def test_a_check_that_no_rule_knows_has_the_cause_of_its_family(check: str, family: str) -> None:
    verdict = verdict_on(device(check))
    assert (rule_of(verdict), verdict.cause) == (f"hardware.{family}", family)
    assert (verdict.culprit.node_id, verdict.culprit.gpu_uuid) == ("node-1", "GPU-1")


@pytest.mark.parametrize(
    "check", ["xid_79", "gpu_lost", "xid_48", "xid_95", "gpu_row_remap_failure", "xid_149", "nic_link", "xid_62", "mce"]
)
def test_a_check_of_hardware_blames_the_device_and_asks_for_what_its_policy_says(check: str) -> None:
    verdict = verdict_on(device(check, action=Action.REBOOT_NODE))
    assert verdict.attribution is Attribution.HARDWARE
    assert (verdict.culprit.node_id, verdict.culprit.gpu_uuid) == ("node-1", "GPU-1")
    assert verdict.action is Action.REBOOT_NODE


@pytest.mark.parametrize(
    ("origin", "rule"),
    [("driver", "driver.gpu_driver"), ("platform", "platform.host_fault"), ("unknown", "unknown.device_report")],
)
def test_whose_fault_it_is_comes_from_the_policys_prior(origin: str, rule: str) -> None:
    verdict = verdict_on(device("check_that_no_rule_knows", origin=origin))
    assert rule_of(verdict) == rule
    assert verdict.attribution == origin


def test_a_users_prior_never_blames_hardware() -> None:
    piece = from_node_fault(told("xid_31", origin="user"))
    assert isinstance(piece, Note)
    verdict = verdict_on(piece)
    assert verdict.attribution in (Attribution.USER, Attribution.UNKNOWN)
    assert verdict.culprit.gpu_uuid is None
    assert verdict.action is Action.RESTART_PROCESS, "no rank failed of it"
    beside = verdict_on(piece, died(2, error=raised(), step=3))
    assert beside.attribution in (Attribution.USER, Attribution.UNKNOWN)
    assert beside.action is Action.RESTART_PROCESS


@pytest.mark.parametrize("action", [Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE, Action.RESTART_PROCESS])
def test_the_action_is_the_evidences_own(action: Action) -> None:
    verdict = verdict_on(device("xid_48", action=action, driver_action="gpu_reset"))
    assert verdict.action is action
    assert "the driver asks for gpu_reset" in verdict.reasons[0].sentence


def test_a_measurement_alone_is_less_sure_than_the_drivers_own_word() -> None:
    measured = verdict_on(device("nic_novel"))
    reported = verdict_on(device("nic_novel", driver_action="node_reboot"))
    assert measured.confidence < reported.confidence
    assert "the driver itself has reported nothing" in measured.counter_evidence[0].sentence


@pytest.mark.parametrize(
    "other",
    [died(0, signal=9), died(0, error=raised()), died(0, signal=11), lost("node-0"), died(0, error=lost_peer())],
)
def test_a_device_explains_the_deaths_and_losses_beside_it(other: object) -> None:
    verdict = verdict_on(other, device())  # type: ignore[arg-type]
    assert verdict.attribution is Attribution.HARDWARE


def test_a_fault_that_comes_after_the_verdict_on_an_exit_revises_it() -> None:
    judge = Judge()
    [first] = judge.see(died(2, error=raised()))
    assert first.cause == "python_exception"
    [second] = judge.see(device())
    assert second.supersedes == first.fault_id
    assert second.attribution is Attribution.HARDWARE
    assert "unknown.python_exception" in [each.rule_id for each in second.counter_evidence]
    assert judge.see(device()) == [], "a copy adds nothing"


def test_the_order_of_arrival_does_not_change_the_verdict() -> None:
    one, other = verdict_on(died(2, error=raised()), device()), verdict_on(device(), died(2, error=raised()))
    assert (one.cause, one.culprit, one.action) == (other.cause, other.culprit, other.action)


def test_exceptions_of_a_generation_with_a_device_fault_are_no_repetition() -> None:
    judge = Judge()
    judge.see(died(2, error=raised(), step=40, tag="a"), 1)
    judge.see(device(), 1)
    [second] = judge.see(died(2, error=raised(), step=40, tag="b"), 2)
    assert second.cause == "python_exception"


def test_device_faults_are_bounded_and_kept_short_when_old() -> None:
    generation = Generation(topology_version=1)
    for number in range(DEVICES_MAX + 5):
        generation = add(generation, from_node_fault(told(f"mce_{number}")))
    assert len(generation.devices) == DEVICES_MAX
    old = compact(generation)
    assert 0 < len(old.devices) < DEVICES_MAX


def test_what_has_no_evidence_is_a_note() -> None:
    bare = told()
    bare = bare.model_copy(update={"condition": bare.condition.model_copy(update={"device": None})})
    assert isinstance(from_node_fault(bare), Note)

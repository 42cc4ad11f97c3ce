"""A node's fitness from open conditions, quarantined devices and its inventory, in whatever order copies come."""

from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.faults import Action, Attribution
from fault_contracts.hardware import Hold, LedgerEntry, NodeStanding
from fault_contracts.health import Component, ConditionRaised, DeviceEvidence, Tier
from fault_contracts.inventory import DeviceIdentity, DeviceKind, InventoryReported
from fault_contracts.payload import Health, Reason
from health_ingest.domain.node_standing import CONDITIONS_MAX, NodeState, cleared, entry_changed, inventoried, raised

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
WHY = Reason(rule_id="ledger.replace", sentence="it fell off the bus")


def state() -> NodeState:
    return NodeState(standing=NodeStanding(node_id="a"))


def condition(
    condition_id: str = "c1",
    *,
    tier: Tier = Tier.FAILURE,
    action: Action | None = Action.RESET_GPU,
    origin: Attribution = Attribution.HARDWARE,
    sympathetic: bool = False,
) -> ConditionRaised:
    device = None
    if action is not None:
        device = DeviceEvidence(
            gpu_uuid="GPU-1", xid=79, rule_id="r", origin=origin, action=action, sympathetic=sympathetic
        )
    return ConditionRaised(
        condition_id=condition_id,
        node_id="a",
        component=Component.GPU,
        component_id="GPU-1",
        check="xid_79",
        tier=tier,
        reason="it fell off the bus",
        device=device,
        raised_at=NOON,
    )


def inventory(*devices: str, at: datetime = NOON) -> InventoryReported:
    return InventoryReported(
        node_id="a",
        instance_id="i",
        devices=tuple(DeviceIdentity(kind=DeviceKind.GPU, device_id=device) for device in devices),
        reported_at=at,
    )


def entry(hold: Hold = Hold.QUARANTINED, node: str = "a") -> LedgerEntry:
    return LedgerEntry(device_id="GPU-1", node_id=node, hold=hold, reason=WHY, by="health-ingest")


def test_unknown_until_a_host_role_has_told_what_is_there() -> None:
    assert state().standing.fit is Health.UNKNOWN
    assert inventoried(state(), inventory("GPU-1"), (), now=NOON).standing.fit is Health.OK


def test_a_device_that_needs_the_machine_makes_it_bad_until_it_is_over() -> None:
    bad = raised(inventoried(state(), inventory("GPU-1"), (), now=NOON), condition(), now=NOON)
    assert bad.standing.fit is Health.BAD
    assert bad.standing.reasons[0].sentence == "gpu GPU-1: it fell off the bus (Xid 79)"
    well = cleared(bad, "c1", now=NOON)
    assert well.standing.fit is Health.OK
    assert raised(well, condition(), now=NOON) == well, "a copy opens nothing again"


@pytest.mark.parametrize(
    ("kind", "doubts"),
    [
        ({"tier": Tier.PROBLEM}, 1),
        ({"action": None}, 1),
        ({"action": Action.RESTART_PROCESS}, 1),
        ({"origin": Attribution.USER}, 0),
        ({"sympathetic": True}, 0),
    ],
)
def test_a_problem_is_a_doubt_and_a_users_fault_is_nothing(kind: dict[str, object], doubts: int) -> None:
    made = raised(state(), condition(**kind), now=NOON)  # type: ignore[arg-type]
    assert made.standing.fit is Health.UNKNOWN
    assert len(made.standing.doubts) == doubts


def test_a_problem_that_becomes_a_failure_is_one_condition_and_never_goes_back_by_a_copy() -> None:
    problem, failure = condition(tier=Tier.PROBLEM), condition()
    grave = raised(raised(state(), problem, now=NOON), failure, now=NOON)
    assert [each.tier for each in grave.standing.conditions] == [Tier.FAILURE]
    assert raised(grave, problem, now=NOON) == grave


def test_a_quarantined_device_that_comes_with_an_inventory_makes_the_node_bad() -> None:
    bad = inventoried(state(), inventory("GPU-1"), (entry(),), now=NOON)
    assert bad.standing.fit is Health.BAD
    assert "GPU-1 is in quarantine" in bad.standing.reasons[0].sentence
    replaced = inventoried(bad, inventory("GPU-2", at=NOON + timedelta(hours=1)), (), now=NOON)
    assert replaced.standing.fit is Health.OK, "a replaced GPU does not inherit the node's past"
    assert inventoried(replaced, inventory("GPU-1"), (entry(),), now=NOON) == replaced, "an older inventory is a copy"


def test_changes_of_the_ledger_hold_and_let_go() -> None:
    bad = entry_changed(state(), entry(), now=NOON)
    assert bad.standing.fit is Health.BAD
    assert entry_changed(bad, entry(), now=NOON) == bad
    assert entry_changed(bad, entry(Hold.PROBATION), now=NOON).standing.fit is Health.UNKNOWN
    assert entry_changed(bad, entry(node="b"), now=NOON).standing.held == (), "it is somewhere else"


def test_the_version_grows_with_each_change_and_only_then() -> None:
    one = raised(state(), condition(), now=NOON)
    assert one.standing.version == 1
    assert raised(one, condition(), now=NOON).standing.version == 1
    assert cleared(one, "c1", now=NOON).standing.version == 2
    unknown = cleared(one, "never-raised", now=NOON)
    assert unknown.standing.version == 1
    assert "never-raised" in unknown.over, "its raising may come late, and opens nothing"


def test_conditions_are_bounded_and_failures_stay() -> None:
    made = state()
    for number in range(CONDITIONS_MAX + 5):
        made = raised(made, condition(f"p{number}", tier=Tier.PROBLEM), now=NOON)
    made = raised(made, condition("failure"), now=NOON)
    assert len(made.standing.conditions) == CONDITIONS_MAX
    assert made.standing.fit is Health.BAD

"""Which commands an order runs, in which order."""

from datetime import UTC, datetime

from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.node_actions import NodeAction, OrderNodeAction
from fault_contracts.payload import Reason
from node_agent.domain.node_action_plan import ActionCommands, Quiesced, filled, shown, steps_of

GPU = DeviceIdentity(kind=DeviceKind.GPU, device_id="GPU-1", pci_bus_id="0000:3b:00", index=2, minor=5)
CONFIGURED = ActionCommands(
    commands={NodeAction.RESET_GPU: ("reset", "-i", "{pci}.0"), NodeAction.REBOOT: ("reboot",)},
    quiesce=(
        Quiesced(stop=("stop", "dcgm"), start=("start", "dcgm")),
        Quiesced(stop=("stop", "persistenced"), start=("start", "persistenced")),
    ),
)


def order(action: NodeAction) -> OrderNodeAction:
    """An order for a GPU."""
    return OrderNodeAction(
        node_id="node-a",
        operation_id="op",
        action=action,
        gpu_uuid="GPU-1",
        asked_by="alice",
        reason=Reason(rule_id="t", sentence="s"),
        expires_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_a_reset_stops_services_and_starts_them_in_the_opposite_order() -> None:
    steps = [shown(step) for step in steps_of(CONFIGURED, order(NodeAction.RESET_GPU), GPU)]
    assert steps == ["stop dcgm", "stop persistenced", "reset -i 0000:3b:00.0", "start persistenced", "start dcgm"]


def test_other_actions_stop_no_services() -> None:
    assert steps_of(CONFIGURED, order(NodeAction.REBOOT), None) == (("reboot",),)


def test_what_is_not_configured_has_no_steps() -> None:
    assert steps_of(CONFIGURED, order(NodeAction.DRAIN), None) == ()


def test_names_are_put_in_within_one_argument() -> None:
    words = filled(("x", "{uuid}", "--at={pci}:{index}:{minor}", "{node} now"), order(NodeAction.RESET_GPU), GPU)
    assert words == ("x", "GPU-1", "--at=0000:3b:00:2:5", "node-a now")


def test_what_is_shown_can_be_typed() -> None:
    assert shown(("sh", "-c", "echo a b")) == "sh -c 'echo a b'"

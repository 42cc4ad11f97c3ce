"""A node as Kubernetes has it, what Phalanx knows about it, and the patch applied by hand."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fault_contracts.hardware import HeldDevice, NodeStanding, OpenCondition
from fault_contracts.health import Component, Tier
from fault_contracts.payload import Health, Reason
from fault_contracts.remediation import NodePhase
from recovery_planner.domain.kube_node_seen import NodeSeen, read_node
from recovery_planner.domain.kube_nodes import Known, Mirrored, MirrorRules, mirror
from recovery_planner.domain.node_life import NodeLife

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
BORN = "2030-01-01T11:00:00Z"


def life(phase: NodePhase, *, rule_id: str = "node.blamed", since: datetime = NOON, **fields: Any) -> NodeLife:
    reason = Reason(rule_id=rule_id, sentence=f"because of {rule_id}")
    return NodeLife(node_id="n1", phase=phase, since=since, reason=reason, **fields)


def open_condition(
    check: str, *, tier: Tier = Tier.FAILURE, component: Component = Component.GPU, ident: str = "c1"
) -> OpenCondition:
    said = f"{check} was seen"
    return OpenCondition(condition_id=ident, component=component, check=check, tier=tier, reason=said, raised_at=NOON)


def standing(*conditions: OpenCondition, fit: Health = Health.OK, held: tuple[HeldDevice, ...] = ()) -> NodeStanding:
    return NodeStanding(node_id="n1", fit=fit, conditions=conditions, held=held)


class Machine:
    """One node's JSON; patches and conditions are put into it as the server would."""

    def __init__(self, **spec: Any) -> None:
        self.now = NOON
        self.node: dict[str, Any] = {
            "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7", "creationTimestamp": BORN},
            "spec": dict(spec),
            "status": {"conditions": []},
        }
        self.reasons: list[str] = []

    @property
    def seen(self) -> NodeSeen:
        return read_node(self.node)

    @property
    def spec(self) -> Mapping[str, Any]:
        return dict(self.node["spec"])

    def condition(self, type_: str) -> Mapping[str, Any]:
        return next(each for each in self.node["status"]["conditions"] if each["type"] == type_)

    def round(self, known: Known, rules: MirrorRules | None = None, **more: Any) -> Mirrored:
        """Decide, and do it."""
        asked = {"may_keep_out": True, "stuck": "", **more}
        decided = mirror(self.seen, known, rules or MirrorRules(), now=self.now, **asked)
        patch = decided.patch or {}
        for name, value in patch.get("metadata", {}).get("annotations", {}).items():
            annotations = self.node["metadata"].setdefault("annotations", {})
            annotations[name] = value
            if value is None:
                del annotations[name]
        self.node["spec"].update(patch.get("spec", {}))
        if decided.conditions:
            self.node["status"]["conditions"] = [
                {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message,
                 "lastTransitionTime": each.since}
                for each in decided.conditions
            ]  # fmt: skip
        self.reasons += [reason for reason, _, _ in decided.events]
        return decided

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

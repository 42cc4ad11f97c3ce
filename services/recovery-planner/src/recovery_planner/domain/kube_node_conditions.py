"""Node conditions, one per family of hardware: True means that something is wrong, as node-problem-detector has it.

Reasons are the checks' names in CamelCase, so that alerts can match them; messages are what was said when the condition
was raised. Neither counts anything, so a fault that repeats changes nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from fault_contracts.hardware import NodeStanding, OpenCondition
from fault_contracts.health import Component, Tier
from fault_contracts.payload import Health
from fault_contracts.remediation import NodePhase
from recovery_planner.domain.kube_node_seen import Condition, NodeSeen, time_text
from recovery_planner.domain.node_life import NodeLife

MESSAGE_MAX = 1_000
SHOWN_MAX = 5


class Family(StrEnum):
    """Types of node conditions."""

    GPU = "PhalanxGPUUnhealthy"
    FABRIC = "PhalanxFabricUnhealthy"
    """NVLink switches and network cards."""
    DRIVER = "PhalanxDriverUnhealthy"
    HOST = "PhalanxHostUnhealthy"
    DEVICE_HELD = "PhalanxDeviceHeld"
    """A device in it is in quarantine."""
    REMEDIATION = "PhalanxInRemediation"
    """Something is done about the node, or it is out of use."""


_FAMILY = {
    Component.GPU: Family.GPU,
    Component.NVSWITCH: Family.FABRIC,
    Component.NIC: Family.FABRIC,
    Component.DRIVER: Family.DRIVER,
}
_HEALTH = (Family.GPU, Family.FABRIC, Family.DRIVER, Family.HOST)


def conditions_of(
    seen: NodeSeen, standing: NodeStanding | None, life: NodeLife | None, *, trouble: Condition | None, now: datetime
) -> tuple[Condition, ...]:
    """All of ours. `trouble`: what hinders the operator at this node, in place of the word about remediation."""
    wanted = [_health(family, standing) for family in _HEALTH]
    wanted.append(_held(standing))
    wanted.append(trouble or _remediation(life))
    return tuple(_dated(each, seen.ours.get(each.type), now) for each in wanted)


def _health(family: Family, standing: NodeStanding | None) -> Condition:
    if standing is None or (standing.fit is Health.UNKNOWN and not standing.conditions):
        said = "no host role has told what it sees on this node"
        return Condition(type=family, status="Unknown", reason="NotObserved", message=said)
    mine = sorted(
        (each for each in standing.conditions if _FAMILY.get(each.component, Family.HOST) is family),
        key=lambda each: (each.tier is not Tier.FAILURE, each.raised_at, each.condition_id),
    )
    if not mine:
        return Condition(type=family, status="False", reason="NoProblem", message="nothing is wrong")
    failed = mine[0].tier is Tier.FAILURE
    reason = camel(mine[0].check) if failed else "ToleratedProblem"
    return Condition(type=family, status="True" if failed else "False", reason=reason, message=_sentences(mine))


def _held(standing: NodeStanding | None) -> Condition:
    held = () if standing is None else standing.held
    if not held:
        said = "no device of it is in quarantine"
        return Condition(type=Family.DEVICE_HELD, status="False", reason="NoneHeld", message=said)
    said = "; ".join(f"{each.device_id}: {each.reason}" for each in held[:SHOWN_MAX])
    return Condition(type=Family.DEVICE_HELD, status="True", reason="Quarantined", message=said[:MESSAGE_MAX])


def _remediation(life: NodeLife | None) -> Condition:
    if life is None or life.phase is NodePhase.OK:
        said = "nothing is done about it"
        return Condition(type=Family.REMEDIATION, status="False", reason="Ok", message=said)
    return Condition(
        type=Family.REMEDIATION,
        status="True" if life.is_out else "False",
        reason=camel(life.phase),
        message=life.reason.sentence[:MESSAGE_MAX],
    )


def _dated(wanted: Condition, has: Condition | None, now: datetime) -> Condition:
    """The time of a transition is that of the status, not of the words."""
    since = has.since if has is not None and has.status == wanted.status and has.since else time_text(now)
    return Condition(type=wanted.type, status=wanted.status, reason=wanted.reason, message=wanted.message, since=since)


def _sentences(conditions: Iterable[OpenCondition]) -> str:
    said = list(dict.fromkeys(f"{each.check}: {each.reason}" for each in conditions))
    more = f"; and {len(said) - SHOWN_MAX} more" if len(said) > SHOWN_MAX else ""
    return ("; ".join(said[:SHOWN_MAX]) + more)[:MESSAGE_MAX]


def camel(name: str) -> str:
    """`xid_79` as `Xid79`: what Kubernetes takes for a reason."""
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in name).split()
    return "".join(word[:1].upper() + word[1:] for word in words) or "Unnamed"

"""What the operator writes into one node: conditions, taints, cordon; `mirror` decides it from what Phalanx knows.

The planner decides what is done about a node; this says it in Kubernetes' words, and takes back only its own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fault_contracts.hardware import NodeStanding
from fault_contracts.payload import Health
from fault_contracts.remediation import NodePhase
from recovery_planner.domain.kube_node_conditions import MESSAGE_MAX, Family, conditions_of
from recovery_planner.domain.kube_node_seen import (
    CORDONED,
    DRAIN_BEGAN,
    NOT_VALIDATED,
    UNHEALTHY,
    Condition,
    NodeSeen,
    time_text,
)
from recovery_planner.domain.node_life import NodeLife

TAINT_VALUE_MAX = 63
BY_SOMEBODY = "not-again"
"""Value of CORDONED once somebody else un-cordoned the node: it is not cordoned a second time in this story."""
_DRAINED = frozenset({NodePhase.REMEDIATING, NodePhase.LISTED, NodePhase.REPLACED})
"""Before, ranks leave by the planner's plan; afterwards nothing that is still there has a say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRules:
    """What the operator may do to nodes.

    Attributes:
        cordon: also make it unschedulable; the taint alone keeps off what does not tolerate it.
        drain: evict what is left there once ranks are gone.
        share_max: of the nodes, kept out by us at a time; one is always allowed.
    """

    cordon: bool = True
    drain: bool = True
    drain_s: float = 1_800.0
    share_max: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What Phalanx knows about a node."""

    standing: NodeStanding | None = None
    life: NodeLife | None = None
    devices_apart: bool = False
    """What is bad are devices that are isolated by themselves, so the node may go on with the others."""

    @property
    def keeps_out(self) -> str:
        """Why nothing new is to run there, as a word; empty: it may."""
        if self.life is not None and self.life.is_out:
            return str(self.life.phase)
        bad = self.standing is not None and self.standing.fit is Health.BAD
        return "bad" if bad and not self.devices_apart else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """What is to be written.

    Attributes:
        conditions: all of ours, when one of them changed; empty: nothing to write.
        patch: for the node itself, with the version it is for; None: nothing.
        drain: whether pods are to be evicted now; `overdue`: for too long already, so no more.
        events: reason, message, whether it is a warning.
        gate_wanted: it carries the startup taint and nobody has tried it out.
    """

    conditions: tuple[Condition, ...] = ()
    patch: Mapping[str, Any] | None = None
    drain: bool = False
    overdue: bool = False
    events: tuple[tuple[str, str, bool], ...] = ()
    gate_wanted: bool = False


def mirror(
    seen: NodeSeen, known: Known, rules: MirrorRules, *, may_keep_out: bool, stuck: str, now: datetime
) -> Mirrored:
    """Decide for one node. `may_keep_out`: the cap allows it; `stuck`: pods that cannot be evicted, in words."""
    out = known.keeps_out
    held_back = bool(out) and not may_keep_out and not seen.has_taint(UNHEALTHY)
    changes = _Changes(seen)
    if out and not held_back:
        changes.taint(UNHEALTHY, out)
        _cordon(changes, rules, out)
    elif not out:
        changes.untaint(UNHEALTHY)
        _uncordon(changes)
    passed = _gate_passed(seen, known.life)
    if seen.has_taint(NOT_VALIDATED) and passed:
        changes.untaint(NOT_VALIDATED)
        changes.tell("Validated", f"{passed}; the startup taint is taken away")
    draining = rules.drain and not held_back and known.life is not None and known.life.phase in _DRAINED
    overdue = _drain_clock(changes, rules, draining=draining, now=now)
    trouble = _trouble(held_back=held_back, out=out, overdue=overdue and bool(stuck), stuck=stuck)
    conditions = conditions_of(seen, known.standing, known.life, trouble=trouble, now=now)
    same = all(each.type in seen.ours and seen.ours[each.type].said == each.said for each in conditions)
    if trouble is not None and (trouble.type not in seen.ours or seen.ours[trouble.type].reason != trouble.reason):
        changes.tell(trouble.reason, trouble.message, warning=True)
    return Mirrored(
        conditions=() if same else conditions,
        patch=changes.patch(),
        drain=draining and not overdue,
        overdue=overdue,
        events=tuple(changes.events),
        gate_wanted=seen.has_taint(NOT_VALIDATED) and not passed and not out and not _is_suspect(known.life),
    )


def admitted(nodes: Mapping[str, tuple[NodeSeen, Known]], rules: MirrorRules) -> frozenset[str]:
    """Nodes that may be kept out of use at the same time: those that are already, then by name."""
    allowed = max(1, int(len(nodes) * rules.share_max))
    wanted = [(not seen.has_taint(UNHEALTHY), name) for name, (seen, known) in nodes.items() if known.keeps_out]
    return frozenset(name for _, name in sorted(wanted)[:allowed])


def _cordon(changes: _Changes, rules: MirrorRules, why: str) -> None:
    seen = changes.seen
    if not rules.cordon:
        return
    if seen.cordoned_for is None:
        if not seen.unschedulable:  # else somebody else cordoned it, and it is theirs
            changes.annotate(CORDONED, why)
            changes.spec["unschedulable"] = True
            changes.tell("Cordoned", f"it is out of use: {why}")
    elif seen.cordoned_for != BY_SOMEBODY and not seen.unschedulable:
        changes.annotate(CORDONED, BY_SOMEBODY)
        changes.tell(
            "UncordonedBySomebody", "somebody made it schedulable again; it is not cordoned again", warning=True
        )


def _uncordon(changes: _Changes) -> None:
    seen = changes.seen
    if seen.cordoned_for is None:
        return
    changes.annotate(CORDONED, None)
    if seen.cordoned_for != BY_SOMEBODY and seen.unschedulable:
        changes.spec["unschedulable"] = False
        changes.tell("Uncordoned", "it may be used again")


def _drain_clock(changes: _Changes, rules: MirrorRules, *, draining: bool, now: datetime) -> bool:
    """Whether it takes too long. The annotation is the clock: it outlives us."""
    began = changes.seen.drain_began
    if not draining:
        if began:
            changes.annotate(DRAIN_BEGAN, None)
        return False
    if not began:
        changes.annotate(DRAIN_BEGAN, time_text(now))
        return False
    try:
        since = datetime.fromisoformat(began.replace("Z", "+00:00"))
        return (now - since).total_seconds() > rules.drain_s
    except (ValueError, TypeError):
        # Somebody wrote something else there: the clock begins anew.
        changes.annotate(DRAIN_BEGAN, time_text(now))
        return False


def _trouble(*, held_back: bool, out: str, overdue: bool, stuck: str) -> Condition | None:
    if held_back:
        said = f"it should be out of use ({out}), but too many nodes are already; raise the share or mend those first"
        return Condition(type=Family.REMEDIATION, status="True", reason="BlastRadiusReached", message=said)
    if overdue:
        said = f"it could not be drained in time, and nothing is forced: {stuck}"[:MESSAGE_MAX]
        return Condition(type=Family.REMEDIATION, status="True", reason="DrainTimedOut", message=said)
    return None


def _gate_passed(seen: NodeSeen, life: NodeLife | None) -> str:
    """Why the node needs no startup taint any more; empty: it does. What an older machine passed is void."""
    if life is None or (seen.created_at is not None and life.since < seen.created_at):
        return ""
    proven = life.phase is NodePhase.OK and life.reason.rule_id in ("node.proven", "person")
    return life.reason.sentence if proven or life.phase is NodePhase.PROBATION else ""


def _is_suspect(life: NodeLife | None) -> bool:
    return life is not None and life.phase is NodePhase.SUSPECT


class _Changes:
    """What one patch changes. The list of taints is atomic: all of it is written, for exactly the version read."""

    def __init__(self, seen: NodeSeen) -> None:
        self.seen = seen
        self.spec: dict[str, Any] = {}
        self.events: list[tuple[str, str, bool]] = []
        self._annotations: dict[str, str | None] = {}
        self._taints = [dict(raw) for raw in seen.raw_taints]

    def taint(self, key: str, value: str) -> None:
        """One that is there with another value is changed."""
        wanted = {"key": key, "value": value[:TAINT_VALUE_MAX], "effect": "NoSchedule"}
        mine = [raw for raw in self._taints if raw.get("key") == key]
        if len(mine) != 1 or any(mine[0].get(name) != value for name, value in wanted.items()):
            self._taints = [raw for raw in self._taints if raw.get("key") != key] + [wanted]

    def untaint(self, key: str) -> None:
        """Whatever its effect."""
        self._taints = [raw for raw in self._taints if raw.get("key") != key]

    def annotate(self, name: str, value: str | None) -> None:
        """None takes it away."""
        self._annotations[name] = value

    def tell(self, reason: str, message: str, *, warning: bool = False) -> None:
        """An event."""
        self.events.append((reason, message, warning))

    def patch(self) -> Mapping[str, Any] | None:
        """A merge patch, or None."""
        spec = dict(self.spec)
        if self._taints != [dict(raw) for raw in self.seen.raw_taints]:
            spec["taints"] = self._taints or None
        if not spec and not self._annotations:
            return None
        metadata: dict[str, Any] = {"resourceVersion": self.seen.version}
        if self._annotations:
            metadata["annotations"] = dict(self._annotations)
        return {"metadata": metadata, **({"spec": spec} if spec else {})}

"""Whether a node is to be given back to whoever made it. Nothing here can be taken back, so every doubt says no."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from fault_contracts.remediation import NodePhase
from recovery_planner.domain.kube_node_seen import UNHEALTHY, NodeSeen
from recovery_planner.domain.node_life import NodeLife


class Replacement(StrEnum):
    """How a node that was given up is replaced. Closed."""

    WAIT = "wait"
    """It stays cordoned; a person, or the cloud, does the rest."""
    NODE_CLAIM = "node-claim"
    """Its NodeClaim is deleted; Karpenter drains it, ends the machine and makes another one."""
    WEBHOOK = "webhook"
    """A service of yours is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireRules:
    """How, and how many.

    Attributes:
        nodes_max: given back within `window_s`, beside the planner's own breaker.
    """

    how: Replacement = Replacement.WAIT
    nodes_max: int = 5
    window_s: float = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """The decision. `why_not` empty: give it back."""

    why_not: str = ""
    worth_telling: bool = False


def retire(
    seen: NodeSeen, life: NodeLife | None, rules: RetireRules, *, retired_at: tuple[datetime, ...], now: datetime
) -> Retire:
    """Decide for one node."""
    if life is None or life.phase is not NodePhase.REPLACED:
        return Retire(why_not="it was not given up")
    if rules.how is Replacement.WAIT:
        return Retire(why_not="nodes that were given up stay cordoned here")
    if seen.created_at is None or seen.created_at > life.since:
        return Retire(why_not="another machine has its name by now")
    if not seen.has_taint(UNHEALTHY):
        return Retire(why_not="it does not carry our taint (yet)")
    recent = [at for at in retired_at if now - at < timedelta(seconds=rules.window_s)]
    if len(recent) >= rules.nodes_max:
        said = f"{len(recent)} nodes were given back in the last {rules.window_s:g} s, and no more are allowed"
        return Retire(why_not=said, worth_telling=True)
    return Retire()

"""Told to go: is there time for a checkpoint of the whole gang, and after which step?

Ranks of one gang are at most one step apart: who has finished step n has met all others in its collectives. So while
the newest step of this node is n, no rank anywhere has finished more than n + 1, and n + 2 lies before everybody. The
request takes time to reach all ranks, so as many steps are added as fit into that time; a rank that it reaches too late
does not obey it (worker_link.checkpoint_wish), and then there is no checkpoint, but never a mixed one.
"""

from __future__ import annotations

from dataclasses import dataclass

from fault_contracts.agent import AgentPhase
from fault_contracts.payload import Reason
from node_agent.domain.step_pace import StepPace

SKEW_STEPS = 2
"""Beyond the newest step of this node; see above."""
LEAD_S = 2.0
"""From this agent over the bus to the planner and from there to every rank: some ten milliseconds, seconds when
machines are overloaded."""
LEAD_PART_MAX = 0.25
"""Of the time that there is; the rest belongs to saving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarewellPlan:
    """What to do, and why.

    Attributes:
        at_step: the step to save after; None: no checkpoint, the ranks get the signal at once.
    """

    at_step: int | None
    reason: Reason


def plan_farewell(
    pace: StepPace, *, phase: AgentPhase, topology_version: int, links: int, within_s: float
) -> FarewellPlan:
    """Decide.

    Args:
        pace: of the ranks of this node.
        phase: of this node's worker group.
        topology_version: the generation that runs.
        links: how many ranks of this node can be reached over worker-link.
        within_s: until the node has to be empty.
    """
    if phase is not AgentPhase.RUNNING:
        return _none("idle", f"there is nothing to save: the ranks of this node are {phase}")
    if within_s <= 0:
        return _none("no_time", "there is no time for it: --shutdown-timeout is 0")
    if links == 0:
        return _none("no_worker_link", "no rank uses worker-link: nobody can be asked for a checkpoint")
    newest = pace.newest if pace.topology_version == topology_version else None
    if newest is None:
        return _none("no_step", "no step of this generation is known: there is nothing new to save")
    step_s = pace.step_s or 0.0
    lead_s = min(LEAD_S, LEAD_PART_MAX * within_s)
    lead_steps = int(lead_s // step_s) if step_s else 0
    at_step = newest + SKEW_STEPS + lead_steps
    waits_s = (at_step - newest) * step_s
    if waits_s >= within_s:
        return _none(
            "too_slow", f"a step takes {step_s:.1f} s: step {at_step} comes in {waits_s:.0f} s, past the limit"
        )
    return FarewellPlan(
        at_step=at_step,
        reason=Reason(
            rule_id="farewell.checkpoint",
            sentence=f"step {newest} is finished here, so step {at_step} is still before every rank of the gang",
        ),
    )


def _none(rule: str, sentence: str) -> FarewellPlan:
    return FarewellPlan(at_step=None, reason=Reason(rule_id=f"farewell.{rule}", sentence=sentence))

"""What has to come of three strikes: the node replaced, its GPU listed, the fresh node in use. Pure."""

from __future__ import annotations

from datetime import datetime

from fault_contracts.recovery import PhaseTimes
from fault_contracts.remediation import NodePhase, NodeTended, Rung
from phalanx_cli.demo.judgement import FaultResult, Injected
from phalanx_cli.demo.story import JobStory
from phalanx_cli.demo.truths import TRUTHS, truth_words

SICK, FRESH = "node-sick", "node-fresh"
STRIKES = 3
LADDER = (Rung.RESET_GPU, Rung.RESET_GPU, Rung.REPLACE_NODE)
"""What is ordered strike by strike."""


def over(story: JobStory) -> int:
    """Strikes that ended well: the node came through its probation."""
    return sum(
        one.node_id == SICK and (one.before, one.phase) == (NodePhase.PROBATION, NodePhase.OK) for one in story.tended
    )


def named(story: JobStory) -> bool:
    """Whether the pool has said which node comes instead."""
    return any(one.node_id == SICK and one.reason.rule_id == "pool.named" for one in story.tended)


def fresh_at_work(story: JobStory) -> datetime | None:
    """Since when the node that came may have ranks."""
    return next(
        (one.tended_at for one in story.tended if one.node_id == FRESH and one.phase is NodePhase.PROBATION), None
    )


def tended_words(event: NodeTended, *, reason: bool = True) -> str:
    """What was done about a node, for people; a reason that was given just now is not given again."""
    done = f", {event.action} {f'is withheld ({event.withheld_by})' if event.withheld_by else 'is ordered'}"
    why = f": {event.reason.sentence}" if reason else ""
    return f"{event.node_id} is {event.phase}{done if event.action else ''}{why}"


def judge_strikes(story: JobStory, injected: Injected) -> FaultResult:
    """The last strike, and the whole of what was ordered."""
    injection = injected.injection
    of_sick = [one for one in story.tended if one.node_id == SICK]
    orders = [one for one in of_sick if one.action and not one.withheld_by]
    at_work = fresh_at_work(story)
    last = orders[-1] if orders else None
    end = of_sick[-1].phase if of_sick else NodePhase.OK
    return FaultResult(
        fault=injection.fault,
        injected=injection.sentence,
        truth=truth_words(injection.fault),
        verdict="none" if last is None else _verdict(last),
        suspect=_suspect(orders),
        reasons=tuple(f"[{one.reason.rule_id}] {one.reason.sentence}" for one in orders),
        phases=PhaseTimes(),
        injected_to_seen_s=None if last is None else (last.tended_at - injected.at).total_seconds(),
        injected_to_resumed_s=None if at_work is None else (at_work - injected.at).total_seconds(),
        replaced=None,
        outcome=str(end),
        problems=tuple(_problems(story, injected, orders, end)),
    )


def _verdict(last: NodeTended) -> str:
    """As truth_words says it."""
    return f"{last.cause}, {last.action}"


def _suspect(orders: list[NodeTended]) -> str:
    return ", ".join(sorted({one.node_id for one in orders})) or "nobody"


def _problems(story: JobStory, injected: Injected, orders: list[NodeTended], end: NodePhase) -> list[str]:
    injection = injected.injection
    truth = TRUTHS[injection.fault]
    problems = []
    ordered = [one.action for one in orders]
    if ordered != list(LADDER):
        problems.append(f"ordered was {', '.join(ordered) or 'nothing'}, and {', '.join(LADDER)} was due")
    wrong = [_verdict(one) for one in orders if one.cause not in truth.causes]
    problems += [f"the verdict is {found}, the truth is {truth_words(injection.fault)}" for found in wrong]
    if not any(truth.evidence in one.reason.sentence for one in orders[-1:]):
        problems.append(f"no reason of the last order names {truth.evidence}")
    if end is not NodePhase.REPLACED:
        problems.append(f"{injection.node_id} is {end}, not {NodePhase.REPLACED}")
    if story.quarantined != {injection.gpu_uuid}:
        listed = ", ".join(sorted(story.quarantined)) or "nothing"
        problems.append(f"the ledger lists {listed}, and {injection.gpu_uuid} was due")
    if fresh_at_work(story) is None:
        problems.append(f"{FRESH} is not in use")
    others = sorted({one.node_id for one in story.tended if one.action} - {injection.node_id})
    if others:
        problems.append(f"something was ordered of {', '.join(others)}, too")
    return problems

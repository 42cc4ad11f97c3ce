"""The ladder at work: an order, its outcome, the gate, and the next rung where that did not help."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fault_contracts.node_actions import ActionOutcome, NodeAction, NodeActionReported
from fault_contracts.payload import Reason
from fault_contracts.remediation import NodePhase, Rung
from recovery_planner.domain.known_bad import to_list
from recovery_planner.domain.node_care import Care
from recovery_planner.domain.node_ladder import above, at_or_above, limit_s, probation_s
from recovery_planner.domain.node_life import Operation
from recovery_planner.domain.node_machine import NodeTrigger
from recovery_planner.domain.node_story import rung_to_begin

NEVER_HERE = frozenset(
    {
        "node_action.not_allowed",
        "node_action.not_possible",
        "node_action.no_gpu_named",
        "node_action.unknown_gpu",
        "node_action.other_node",
    }
)
"""Refusals of the host role that a repeat does not change."""
_ACTION = {Rung.RESET_GPU: NodeAction.RESET_GPU, Rung.REBOOT_NODE: NodeAction.REBOOT}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionEnded:
    """The host role told what came of an order."""

    report: NodeActionReported


def drained(care: Care) -> None:
    """Begin with the ladder, as soon as no ranks are there."""
    life = care.life
    if care.around.occupied_by or not care.around.told:
        return
    if life.is_by_person:
        reason = care.explain("node.vacated", f"no ranks are on {life.node_id}; {life.by} may have it")
        care.move(NodeTrigger.VACATED, reason, by=life.by)
        return
    rung, why = rung_to_begin(care)
    _climb(care, NodeTrigger.EMPTIED, rung, care.explain("ladder.begin", f"{life.node_id} is empty; {why}"))


def remediating(care: Care) -> None:
    """Give the order, wait for its outcome, or go on without."""
    life = care.life
    if life.rung is Rung.REPLACE_NODE:
        if care.is_due:
            give_up(care, care.explain("pool.no_answer", "the pool did not take the node back in time"))
        return
    if care.around.occupied_by or not care.around.told:
        return  # whoever came back must be gone first
    operation = life.operation
    if operation is None or (not operation.operation_id and care.is_due):
        _order_rung(care, 1 if operation is None else operation.tries + 1)
    elif operation.operation_id and care.is_due:
        next_rung(care, care.explain("ladder.no_answer", f"{operation.action} was not answered in time"))


def validating(care: Care) -> None:
    """Order validations until enough in a row are clean, and nothing is held against it."""
    life, ladder = care.life, care.ladder
    operation = life.operation
    if life.rounds >= ladder.rounds_min:
        _leave_gate(care)
    elif operation is None or (not operation.operation_id and care.is_due):
        tries = 1 if operation is None else operation.tries + 1
        reason = Reason(
            rule_id="gate.round",
            sentence=f"validation {life.rounds + 1} of {ladder.rounds_min} before {life.node_id} works again",
        )
        care.order(NodeAction.VALIDATE, reason, limit_s=ladder.validate_s, tries=tries)
        care.tell(life.phase, reason, action=str(NodeAction.VALIDATE))
    elif operation.operation_id and care.is_due:
        _again(care, "the validation was not answered in time")


def action_ended(care: Care, event: ActionEnded) -> None:
    """Compare with what is under way; whatever else is reported is another's order."""
    report, life = event.report, care.life
    operation = life.operation
    if operation is None or operation.operation_id != report.operation_id:
        care.explain("report.stale", f"operation {report.operation_id} of {life.node_id} is none of ours, or is over")
        return
    said = f"{report.action}: {report.outcome}; {report.reason.sentence}"
    if report.outcome is ActionOutcome.REFUSED and report.reason.rule_id not in NEVER_HERE:
        _again(care, said)
        return
    if life.phase is NodePhase.VALIDATING:
        _validated(care, report, said)
    elif report.outcome is ActionOutcome.DONE:
        reason = care.explain("ladder.done", said, report.operation_id)
        done = (*life.rungs_done, life.rung) if life.rung is not None else life.rungs_done
        care.move(NodeTrigger.RUNG_DONE, reason, operation=None, rounds=0, rungs_done=done)
    else:
        next_rung(care, care.explain("ladder.failed", said, report.operation_id))


def next_rung(care: Care, reason: Reason) -> None:
    """What was tried did not help."""
    life, rungs = care.life, care.ladder.rungs
    if life.predecessor and not life.rungs_done and life.rung is None:
        rung = at_or_above(Rung.REPLACE_NODE, rungs)  # it never worked here: back to the pool
    elif life.rung is None:
        rung = at_or_above(Rung.REBOOT_NODE, rungs)
    else:
        rung = above(life.rung, rungs)
    trigger = NodeTrigger.NOT_CLEAN if life.phase is NodePhase.VALIDATING else NodeTrigger.RUNG_FAILED
    _climb(care, trigger, rung, reason)


def give_up(care: Care, reason: Reason) -> None:
    """No rung is left: out of use, and its devices with it, until a person releases it."""
    gpu = "" if care.life.blame is None else care.life.blame.gpu_uuid
    care.end_trial(well=False)
    care.move(
        NodeTrigger.GIVEN_UP,
        reason,
        operation=None,
        listed=to_list(care.around.standing, gpu),
        ledger_owed=(gpu,) if gpu else (),
    )


def _climb(care: Care, trigger: NodeTrigger, rung: Rung | None, reason: Reason) -> None:
    if rung is None:
        # The table has no way around the ladder: it stands on it, and finds that there is no rung.
        if care.life.phase is not NodePhase.REMEDIATING:
            care.move(trigger, reason, operation=None)
        give_up(care, care.explain("ladder.ends", f"{reason.sentence}; no rung is left for {care.life.node_id}"))
        return
    care.move(trigger, reason, operation=None, rung=rung)
    if rung is not Rung.REPLACE_NODE:
        return
    if not care.around.pool:
        give_up(care, care.explain("pool.none", f"{reason.sentence}; there is no pool: a person has to replace it"))
        return
    request = Operation(
        operation_id=f"{care.life.node_id}-{care.life.story}", action=str(rung), tries=1, ordered_at=care.now
    )
    care.change(operation=request, deadline_at=care.in_s(care.policy.pool.wait_s))
    care.tell(NodePhase.REMEDIATING, reason, action=str(rung))


def _order_rung(care: Care, tries: int) -> None:
    life = care.life
    assert life.rung is not None, "the ladder stands on a rung"
    if tries > care.ladder.orders_max:
        next_rung(care, care.explain("ladder.refused", f"{life.rung} was refused {tries - 1} times"))
        return
    why = life.blame.sentence if life.blame is not None else life.reason.sentence
    evidence = (life.blame.evidence_id,) if life.blame is not None else ()
    reason = Reason(rule_id=f"ladder.{life.rung}", sentence=why[:2_000], evidence_ids=evidence)
    care.reasons.append(reason)
    care.order(_ACTION[life.rung], reason, limit_s=limit_s(life.rung, care.ladder), tries=tries)
    care.tell(life.phase, reason, action=str(life.rung))


def _again(care: Care, sentence: str) -> None:
    """The same order once more, after a moment; not for ever."""
    operation = care.life.operation
    assert operation is not None, "it is under way"
    if operation.tries >= care.ladder.orders_max:
        next_rung(care, care.explain("ladder.refused", f"{sentence}; it was tried {operation.tries} times"))
        return
    care.change(operation=replace(operation, operation_id=""), deadline_at=care.in_s(care.ladder.retry_s))
    care.explain("ladder.again", f"{sentence}; it is tried again in {care.ladder.retry_s:g} s")


def _validated(care: Care, report: NodeActionReported, said: str) -> None:
    life = care.life
    if report.outcome is not ActionOutcome.DONE:
        next_rung(care, care.explain("gate.failed", said, report.operation_id))
        return
    care.change(rounds=life.rounds + 1, operation=None, deadline_at=None)
    reason = care.explain("gate.clean", f"validation {life.rounds + 1} of {care.ladder.rounds_min} is clean")
    care.tell(NodePhase.VALIDATING, reason)


def _leave_gate(care: Care) -> None:
    """Clean. Its conditions end by the reset or the boot; that is waited for, and not for ever."""
    life = care.life
    if care.around.bad is not None and not life.vouched:
        next_rung(care, care.explain(care.around.bad.rule_id, care.around.bad.sentence))
        return
    if care.stands_badly and not life.vouched:
        if life.deadline_at is None:
            care.change(deadline_at=care.in_s(care.ladder.validate_s))
        elif care.is_due:
            standing = care.around.standing
            why = standing.reasons[0].sentence if standing is not None and standing.reasons else "its standing is bad"
            next_rung(care, care.explain("gate.still_bad", f"it validates, but {why}"))
        return
    length_s = probation_s(life.score, care.policy.probation)
    days = f"{length_s / 86_400:.1f} d"
    sentence = f"{life.rounds} clean validations; {life.node_id} works again, on probation for {days}"
    care.end_trial(well=True)
    care.move(
        NodeTrigger.CLEAN,
        care.explain("gate.passed", sentence),
        deadline_s=length_s,
        probation_until=care.in_s(length_s),
        operation=None,
    )

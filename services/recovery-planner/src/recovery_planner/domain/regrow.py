"""A gang that had to shrink grows again: at a checkpoint, after its snooze time, and only when nodes are there for it.

Nothing is asked of the ranks and nothing is lost but the steps since the checkpoint: the stop follows the next one that
every rank confirms. It is planned, so it is no fault: no verdict is waited for and no budget is charged.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fault_contracts.policy import ElasticPolicy
from recovery_planner.domain.checkpoint_history import whole_checkpoints
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.elastic import elastic_rules, seats_grown
from recovery_planner.domain.elastic_state import Regrow
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.gang_stop import PLANNED, fault
from recovery_planner.domain.preemption import saved_step

CHECKPOINT_WAIT_S = 3_600.0
"""A planned regrow waits so long for a checkpoint; then it is given up for a snooze time. Jobs save more often."""
SNOOZE_MIN_S = 60.0
"""Before the next try, however short the policy's own snooze is."""


def regrow(draft: Draft) -> None:
    """Begin to wait for the checkpoint, stop the gang at it, or give the wait up."""
    gang, rules = draft.gang, elastic_rules(draft.gang)
    if gang.phase is not Phase.RUNNING or rules is None:
        return
    if gang.elastic.regrow_at is not None and draft.now >= gang.elastic.regrow_at:
        draft.change(elastic=replace(gang.elastic, regrow_at=None))
    if gang.preemption is not None:
        _drop(draft)  # that stop comes anyway, and takes the new nodes with it
    elif draft.gang.elastic.regrow is not None:
        _follow(draft, draft.gang.elastic.regrow, rules)
    elif draft.gang.elastic.regrow_at is None:
        _begin(draft, rules)


def is_planned(draft: Draft) -> bool:
    """The stop was for a regrow: there is no cause to find out."""
    return draft.incident.by_notice and draft.gang.preemption is None


def _begin(draft: Draft, rules: ElasticPolicy) -> None:
    gang = draft.gang
    nnodes = len(seats_grown(gang, gang.nodes, rules))
    if nnodes == gang.table.nnodes:
        return
    sentence = f"nodes are free again: the gang may grow from {gang.table.nnodes} to {nnodes} nodes"
    version = gang.table.topology_version
    saved = [w.confirmation for w in whole_checkpoints(draft.history) if w.confirmation.topology_version == version]
    wait = Regrow(
        above_step=max((each.step for each in saved), default=-1),
        until=draft.now + timedelta(seconds=CHECKPOINT_WAIT_S),
        sentence=sentence,
    )
    draft.change(elastic=replace(gang.elastic, regrow=wait))
    draft.explain("elastic.regrow_waits", f"{sentence}, at its next checkpoint")


def _follow(draft: Draft, wait: Regrow, rules: ElasticPolicy) -> None:
    gang = draft.gang
    if len(seats_grown(gang, gang.nodes, rules)) == gang.table.nnodes:
        _drop(draft)
        draft.explain("elastic.regrow_off", "the free nodes are not there any more; the gang goes on as it is")
        return
    step = saved_step(draft.history, gang, at_step=wait.above_step + 1)
    if step is not None:
        reason = draft.explain("elastic.regrow", f"{wait.sentence}; the checkpoint of step {step} is saved")
        fault(draft, reason, node_id="", rank=None, observed_at=draft.now, fate=PLANNED)
    elif draft.now >= wait.until:
        _drop(draft)
        again_at = draft.now + timedelta(seconds=max(rules.snooze_s, SNOOZE_MIN_S))
        draft.change(elastic=replace(draft.gang.elastic, regrow_at=again_at))
        draft.explain("elastic.regrow_off", f"no checkpoint came within {CHECKPOINT_WAIT_S:g} s; tried again later")


def _drop(draft: Draft) -> None:
    if draft.gang.elastic.regrow is not None:
        draft.change(elastic=replace(draft.gang.elastic, regrow=None))

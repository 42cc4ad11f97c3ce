"""Nodes that broke this job again and again: by the job's policy they get no place in it any more.

An offence is a restart whose verdict blames the node, and not the user. A node that comes back repaired comes back to
other jobs; to this one only when its offences have left the window.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fault_contracts.faults import Attribution
from recovery_planner.domain.culprit import condemn
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.incident import Verdict
from recovery_planner.domain.member import Standing
from recovery_planner.domain.past_restarts import within
from recovery_planner.domain.withheld import observes


def offender_of(verdict: Verdict | None) -> str:
    """The node to whose account a fault goes; empty: to nobody's."""
    if verdict is None or verdict.attribution is Attribution.USER:
        return ""
    return verdict.culprit_node_id


def bar_offenders(draft: Draft, verdict: Verdict | None) -> None:
    """At a plan: whoever broke the job so often gets no place. A seated one keeps it while nobody could take it."""
    gang = draft.gang
    rule = None if gang.spec.policy is None else gang.spec.policy.repeat_offender
    if rule is None or observes(gang):
        return
    offences = Counter(each.node_id for each in within(gang.past, draft.now, rule.window_s) if each.node_id)
    offences[offender_of(verdict)] += 1
    for node_id in sorted(node for node, count in offences.items() if node and count >= rule.faults):
        if not gang.is_present(node_id):
            continue
        why = f"{node_id} broke this job {offences[node_id]} times in {rule.window_s:g} s"
        if gang.is_seated(node_id):
            condemn(draft, node_id, "repeat_offender", why=why)
            continue
        member = replace(gang.members[node_id], standing=Standing.CONDEMNED)
        draft.change_member(member)
        draft.explain("placement.offender", f"{why}; it gets no place any more")

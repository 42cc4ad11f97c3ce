"""What the classifier's verdict does to an incident."""

from __future__ import annotations

from dataclasses import replace

from fault_contracts.faults import Action, FaultClassified
from fault_contracts.recovery import JobOutcome
from recovery_planner.domain.culprit import blame_late
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.ending import end_job
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.gang_stop import Fate, fault
from recovery_planner.domain.incident import Verdict
from recovery_planner.domain.policy_answer import answer_of
from recovery_planner.domain.step_back import may_step_back
from recovery_planner.domain.withheld import observes, withhold

SEVERITY: dict[Action, int] = {
    Action.WAIT_OR_IGNORE: 0,
    Action.RESTART_PROCESS: 1,
    Action.RESTART_JOB: 2,
    Action.RESET_GPU: 3,
    Action.REBOOT_NODE: 4,
    Action.REPLACE_NODE: 5,
    Action.DONT_RETRY_NOTIFY_USER: 6,
}
"""Of two verdicts about one generation the graver one counts, unless the later one replaces the earlier by name."""


def verdict_of(fault_: FaultClassified) -> Verdict:
    """The part of the message that is kept."""
    return Verdict(
        fault_id=fault_.fault_id,
        topology_version=fault_.topology_version,
        attribution=fault_.attribution,
        cause=fault_.cause,
        action=fault_.action,
        reasons=fault_.reasons,
        summary=fault_.summary,
        culprit_node_id=fault_.culprit.node_id or "",
        culprit_rank=fault_.culprit.rank,
        provisional=fault_.provisional,
        confidence=fault_.confidence,
        condition_ids=fault_.condition_ids,
    )


def outweighs(new: Verdict, old: Verdict | None, *, supersedes: str | None) -> bool:
    """Whether a new verdict takes the place of the one that is there."""
    if old is None or old.provisional or supersedes == old.fault_id:
        return True
    return not new.provisional and SEVERITY[new.action] > SEVERITY[old.action]


def verdict_to_act_on(draft: Draft) -> Verdict | None:
    """The verdict; one that is still provisional when the wait is over ends no job and gives up no node."""
    verdict = draft.incident.verdict
    restarts = (Action.RESTART_PROCESS, Action.RESTART_JOB, Action.WAIT_OR_IGNORE)
    if verdict is None or not verdict.provisional or verdict.action in restarts:
        return verdict
    sentence = f"{verdict.cause} asks for {verdict.action} and is provisional; the gang is only started again"
    draft.explain("plan.provisional", sentence, verdict.fault_id)
    return replace(verdict, action=Action.RESTART_PROCESS)


def fault_classified(draft: Draft, message: FaultClassified) -> None:
    """A verdict arrives: for the broken generation, or, ahead of every other news, for the one that runs."""
    gang = draft.gang
    new = verdict_of(message)
    if gang.phase in (Phase.STARTING, Phase.RUNNING) and new.topology_version == gang.table.topology_version:
        if new.action is Action.WAIT_OR_IGNORE:
            draft.explain("verdict.ignored", f"{new.cause}: the verdict asks to wait", new.fault_id)
            return
        # The verdict outran the report of the death (they come by different streams), or the fault kills no rank.
        reason = draft.explain(
            "fault.classified", f"{new.cause} ({new.attribution}): {message.reasons[0].sentence}", new.fault_id
        )
        if observes(gang):
            withhold(draft, "stop", reason, node_id=new.culprit_node_id, fault_id=new.fault_id, cause=new.cause)
            return
        fault(
            draft,
            reason,
            node_id=new.culprit_node_id,
            rank=message.culprit.rank,
            observed_at=message.classified_at,
            # Its process may well live (a hang): a rank that is blamed does not go on in it.
            # A provisional verdict stops the gang and condemns nobody: the final one may name another rank.
            fate=Fate(condemned=not new.provisional),
        )
        draft.change_incident(verdict=new)
        return
    if gang.incident is None or new.topology_version != gang.incident.fault_version:
        if gang.is_live and not new.provisional and not observes(gang) and blame_late(draft, new):
            return
        draft.ignore("verdict.stale", f"{new.cause}: about version {new.topology_version}, which is over", new.fault_id)
        return
    if gang.incident.verdict is not None and gang.incident.verdict.fault_id == new.fault_id:
        draft.explain("verdict.repeated", f"{new.cause}: known", new.fault_id)
        return
    if not outweighs(new, gang.incident.verdict, supersedes=message.supersedes):
        draft.explain("verdict.outweighed", f"{new.cause}: a graver verdict is there", new.fault_id)
        return
    draft.change_incident(verdict=new)
    draft.explain("verdict.taken", f"{new.cause} ({new.attribution}) asks for {new.action}", new.fault_id)
    if gang.phase is not Phase.STARTING or new.provisional or observes(gang):
        return
    blame_late(draft, new)
    if new.action is Action.DONT_RETRY_NOTIFY_USER and answer_of(draft, new).outcome is not None:
        if may_step_back(draft):
            sentence = f"{new.cause}: a late verdict; should the fault come again, an older checkpoint is tried first"
            draft.explain("checkpoint.on_trial", sentence, new.fault_id)
            return
        # It came after the deadline and the gang is starting again, but what is the user's fault is not retried.
        reason = draft.explain("verdict.late_user", f"a late verdict says that it cannot help to retry: {new.cause}")
        end_job(draft, JobOutcome.FAILED_USER, reason, summary=new.summary)

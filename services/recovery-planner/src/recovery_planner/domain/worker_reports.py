"""What agents report about their ranks. What speaks of another generation, or another life of the agent, is ignored."""

from __future__ import annotations

from dataclasses import replace

from fault_contracts.agent import (
    CommandRefused,
    RestartAsked,
    WorkerExited,
)
from fault_contracts.lone_agent import AgentActedAlone
from fault_contracts.rank_faults import RanksFaulted
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.ending import tell_again
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.gang_stop import Fate, fault
from recovery_planner.domain.member import Member
from recovery_planner.domain.step_back import exit_fingerprint, note_sign, ranks_fingerprint
from recovery_planner.domain.withheld import note_stuck, observes, withhold
from training_topology.identity import NodeId

START_FAILURES = frozenset({"start_failed", "expired", "illegal_transition", "table_gap"})
"""Refusals of a start that no waiting can heal; the gang is stopped and started anew."""

_LIVE = (Phase.STARTING, Phase.RUNNING)


def speaker(draft: Draft, node_id: str, instance_id: str, topology_version: int, what: str) -> Member | None:
    """The member that speaks of the current generation, or None, and then it is said why."""
    gang = draft.gang
    member = gang.members.get(node_id)
    if gang.phase in (Phase.FORMING, Phase.ENDED):
        draft.ignore("report.stale", f"{what} of {node_id}: the gang is {gang.phase}")
    elif member is None or member.instance_id != instance_id:
        draft.ignore("report.stale", f"{what} of {node_id}: not the life of the agent that is a member")
    elif not gang.is_seated(node_id):
        draft.ignore("report.stale", f"{what} of {node_id}: it holds no node_rank")
    elif topology_version != gang.table.topology_version:
        draft.ignore(
            "report.stale",
            f"{what} of {node_id}: about version {topology_version}, the gang is at {gang.table.topology_version}",
        )
    else:
        return member
    return None


def worker_exited(draft: Draft, report: WorkerExited) -> None:
    """A rank ended without being told to, or gave up its work and lives: the gang is broken."""
    if speaker(draft, report.node_id, report.instance_id, report.topology_version, "a death") is None:
        return
    rank = report.exit.rank
    if report.step is not None and draft.gang.phase in _LIVE:
        draft.note_step(report.step)
    rule_id, sentence = _what_happened(report)
    reason = draft.explain(rule_id, f"rank {rank} on {report.node_id} {sentence}", draft.cause_id)
    fate = Fate(dead=not report.process_alive, asked=report.restart_asked or RestartAsked.IN_PROCESS)
    fault(draft, reason, node_id=report.node_id, rank=rank, observed_at=report.observed_at, fate=fate)
    note_sign(draft, rank=rank, fingerprint=exit_fingerprint(report), observed_at=report.observed_at)


def ranks_faulted(draft: Draft, report: RanksFaulted) -> None:
    """Ranks live and cannot go on: the gang is broken, and the processes that are to blame end in any mode."""
    if speaker(draft, report.node_id, report.instance_id, report.topology_version, "a fault of ranks") is None:
        return
    if report.step is not None and draft.gang.phase in _LIVE:
        draft.note_step(report.step)
    own = set(draft.gang.table.ranks_of(NodeId(report.node_id)))
    suspects = tuple(dict.fromkeys(suspect.rank for suspect in report.suspects if suspect.rank in own))
    strangers = sorted({suspect.rank for suspect in report.suspects} - own)
    if strangers:
        draft.explain("ranks.foreign", f"{report.node_id} blames ranks {strangers[:8]}, which are not its own")
    reason = draft.explain(
        f"ranks.{report.check}",
        f"{report.check} on {report.node_id} ({report.rule_id}): {report.reason}",
        draft.cause_id,
    )
    if observes(draft.gang) and draft.gang.phase in _LIVE:
        withhold(draft, "stop", reason, node_id=report.node_id, cause=report.check)
        note_stuck(draft, reason)
        return
    fault(
        draft,
        reason,
        node_id=report.node_id,
        rank=suspects[0] if suspects else None,
        observed_at=report.observed_at,
        fate=Fate(dead=False, condemned=True, others=suspects[1:]),
    )
    first = suspects[0] if suspects else None
    note_sign(draft, rank=first, fingerprint=ranks_fingerprint(report), observed_at=report.observed_at)


def _what_happened(report: WorkerExited) -> tuple[str, str]:
    if report.restart_asked is not None:
        said = report.error.message[:200] if report.error else ""
        return "worker.asked", f"asked for a restart of level {report.restart_asked}: {said}"
    if report.process_alive:
        error = report.error.type if report.error else "an exception"
        return "worker.faulted", f"raised {error} in its re-executable block; its process lives"
    if report.exit.signal:
        return "worker.exited", f"ended by signal {report.exit.signal}"
    return "worker.exited", f"ended with code {report.exit.exit_code}"


def acted_alone(draft: Draft, report: AgentActedAlone) -> None:
    """An agent that heard no planner stopped its ranks: the gang is broken, whatever it was before."""
    member = speaker(draft, report.node_id, report.instance_id, report.topology_version, "an act of its own")
    if member is None:
        return
    sentence = f"{report.node_id} stopped its ranks by itself: {report.reason.sentence}"
    reason = draft.explain("agent.acted_alone", sentence, draft.cause_id)
    if report.stuck_pids:
        draft.explain("stop.stuck", f"{report.node_id} left processes {list(report.stuck_pids)} that did not end")
    fault(draft, reason, node_id=report.node_id, rank=None, observed_at=report.acted_at)


def command_refused(draft: Draft, report: CommandRefused) -> None:
    """An agent did not obey. A refused start is a failed start; everything else is settled by the deadlines."""
    member = draft.gang.members.get(report.node_id)
    if report.code == "table_gap" and member is not None and member.instance_id == report.instance_id:
        # The next start that gives this node a place carries the whole table.
        draft.change_member(replace(member, table_version=0))
    sentence = f"{report.node_id} refused an order ({report.code}): {report.message}"
    if draft.gang.phase is Phase.ENDED and report.code == "expired":
        # It is there, and whatever reached it reached it too late.
        tell_again(draft, report.node_id, asked_by=f"{report.instance_id} {draft.cause_id}")
        return
    is_start = report.operation_id == draft.operation_id("start_workers")
    if draft.gang.phase is not Phase.STARTING or not is_start or report.code not in START_FAILURES:
        draft.ignore("command.refused", sentence)
        return
    if speaker(draft, report.node_id, report.instance_id, draft.gang.table.topology_version, "a refusal") is None:
        return
    reason = draft.explain("start.refused", sentence, draft.cause_id)
    fault(draft, reason, node_id=report.node_id, rank=None, observed_at=draft.now)

"""Is a gang without progress hung, who is to blame, or is it in a long phase? Evidence of all kinds, combined.

Time alone cannot tell a first evaluation from a hang, so lateness only asks for evidence. The rules are a list, the
first that fits decides. They work on the ranks of a node, and as well on those of the whole gang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from node_agent.domain.hang_verdict import HangCase, HangKind, HangPolicy, HangVerdict, name_ranks
from node_agent.domain.progress_watch import Pace, ProgressView
from node_agent.domain.rank_evidence import ProcessState, RankEvidence, Whereabouts
from node_agent.domain.stack_groups import StackPlace, group_stacks
from node_agent.domain.step_times import TrainingPhase
from training_topology.identity import Rank


def suspect(
    progress: ProgressView,
    ranks: Mapping[Rank, RankEvidence],
    *,
    world_size: int,
    policy: HangPolicy,
) -> HangVerdict:
    """Judge the ranks that were seen; `world_size` says whether they are all there are.

    Ranks whose process has ended are not among them: that is a worker's end, told at once by its pidfd.
    """
    stacks = {rank: seen.stack for rank, seen in ranks.items() if seen.stack is not None}
    case = HangCase(progress=progress, ranks=ranks, world_size=world_size, policy=policy, groups=group_stacks(stacks))
    verdict = next(found for rule in RULES if (found := rule(case)) is not None)
    if progress.pace is not Pace.OVERDUE or verdict.is_hang:
        return verdict
    waiting = case.those(Whereabouts.WAITING)
    if progress.declared and case.those(Whereabouts.WORKING):
        return verdict  # the script has said so, and somebody does it
    # When nobody waits, nobody stands out either.
    outside = tuple(sorted(ranks.keys() - set(waiting))) if waiting else ()
    sentence = f"overdue, whatever the evidence says ({verdict.rule_id})"
    return case.verdict(HangKind.HUNG, "hang_overdue", sentence, suspects=outside)


def _stopped(case: HangCase) -> HangVerdict | None:
    """Seen with one look at /proc, whatever the clock of progress says."""
    ended = (ProcessState.STOPPED, ProcessState.ZOMBIE)
    limit_s = case.policy.stopped_s
    found = _in_state(case, ended, limit_s)
    fresh = _in_state(case, ended, 0.0)
    if fresh and not found:
        due_s = case.progress.age_s + limit_s - max(case.ranks[rank].state_age_s for rank in fresh)
        sentence = f"{name_ranks(fresh)} stopped a moment ago"
        return case.verdict(HangKind.UNCLEAR, "hang_stopped_early", sentence, due_s=due_s)
    if not found:
        return None
    states = ", ".join(sorted({case.ranks[rank].state for rank in found}))
    whole = " (all that are seen)" if len(found) == len(case.ranks) > 1 else ""
    sentence = f"{name_ranks(found)}{whole} stopped: process state {states}"
    return case.verdict(HangKind.STOPPED, "hang_stopped", sentence, suspects=found)


def _on_time(case: HangCase) -> HangVerdict | None:
    if case.progress.pace is not Pace.ON_TIME:
        return None
    return case.verdict(HangKind.ON_TIME, "hang_on_time", "on time")


def _traced(case: HangCase) -> HangVerdict | None:
    found = _in_state(case, (ProcessState.TRACED,), 0.0)
    if not found:
        return None
    return case.verdict(HangKind.LONG_PHASE, "hang_traced", f"a debugger holds {name_ranks(found)}")


def _blocked(case: HangCase) -> HangVerdict | None:
    """In the kernel, without I/O, while others are not: a dead disk or file system of this node, or a driver."""
    in_kernel = _in_state(case, (ProcessState.BLOCKED,), case.policy.blocked_s)
    found = tuple(rank for rank in in_kernel if case.ranks[rank].is_busy is not True)
    if not found:
        return None
    if len(found) == len(case.ranks) > 1:
        sentence = "every rank seen is in uninterruptible sleep, as for storage that all share"
        return case.verdict(HangKind.UNCLEAR, "hang_all_blocked", sentence)
    age_s = min(case.ranks[rank].state_age_s for rank in found)
    sentence = f"{name_ranks(found)} in uninterruptible sleep for {age_s:.1f} s without I/O"
    return case.verdict(HangKind.HUNG, "hang_blocked", sentence, suspects=found)


def _long_phase(case: HangCase) -> HangVerdict | None:
    """Somebody evaluates or saves and nobody has said so: from now on the limit of that phase holds.

    A rank that waits in a collective of an evaluation is no sign of one: it waits for somebody, who is judged.
    """
    if case.progress.declared or case.progress.limit.phase is not TrainingPhase.STEADY:
        return None
    active = {
        rank: seen.stack.activity
        for rank, seen in case.ranks.items()
        if seen.stack is not None and seen.stack.activity is not None and seen.whereabouts is not Whereabouts.WAITING
    }
    if not active:
        return None
    rank = min(active)
    found = tuple(sorted(other for other, phase in active.items() if phase is active[rank]))
    sentence = f"{name_ranks(found)} in an undeclared {active[rank]}"
    return case.verdict(HangKind.LONG_PHASE, "hang_long_phase", sentence, recognised=active[rank])


def _unseen(case: HangCase) -> HangVerdict | None:
    """A rank that nothing is known of could be the culprit, or wait: nobody else is blamed meanwhile."""
    if not case.ranks:
        return case.verdict(HangKind.UNCLEAR, "hang_unseen", "no rank was seen")
    unseen = case.those(Whereabouts.UNSEEN)
    if not unseen:
        return None
    mute = tuple(rank for rank in unseen if case.ranks[rank].stack is None and case.ranks[rank].is_busy is False)
    waiting = case.those(Whereabouts.WAITING)
    if mute == unseen and waiting and len(mute) + len(waiting) == len(case.ranks):
        sentence = f"{name_ranks(mute)} idle and without a stack dump, while {name_ranks(waiting)} wait in a collective"
        return _patiently(case, "hang_mute", sentence, mute)
    return case.verdict(HangKind.UNCLEAR, "hang_unseen", f"too little is known of {name_ranks(unseen)}")


def _outside(case: HangCase) -> HangVerdict | None:
    """Some wait for others, who are idle (hung) or work (slow, or alone with a task)."""
    waiting, idle, working = (case.those(w) for w in (Whereabouts.WAITING, Whereabouts.IDLE, Whereabouts.WORKING))
    if not waiting or not (idle or working):
        return None
    if idle:
        places = "; ".join(str(group) for group in case.groups if set(group.ranks) & set(idle))
        sentence = f"{name_ranks(idle)} idle outside of the collective in which {name_ranks(waiting)} wait: {places}"
        return _patiently(case, "hang_outside", sentence, idle)
    sentence = f"{name_ranks(working)} at work while {name_ranks(waiting)} wait"
    if case.progress.age_s < case.policy.alone_s or case.progress.declared:
        return case.verdict(HangKind.LONG_PHASE, "hang_working_alone", sentence, due_s=case.policy.alone_s)
    return case.verdict(HangKind.HUNG, "hang_outside_busy", f"{sentence}, for too long", suspects=working)


def _all_waiting(case: HangCase) -> HangVerdict | None:
    waiting = case.those(Whereabouts.WAITING)
    if len(waiting) < len(case.ranks):
        return None
    if not case.is_whole_gang:
        sentence = f"{name_ranks(waiting)}, all that are seen of {case.world_size}, wait for the others"
        return case.verdict(HangKind.WAITS_ELSEWHERE, "hang_elsewhere", sentence)
    if case.progress.age_s < case.policy.collective_s:
        sentence = "all ranks are in the collective"
        return case.verdict(HangKind.LONG_PHASE, "hang_all_in_collective", sentence, due_s=case.policy.collective_s)
    groups = [group for group in case.groups if group.place is StackPlace.COLLECTIVE]
    if len(groups) > 1 and len(groups[0].ranks) > case.world_size / 2:
        others = tuple(sorted(rank for group in groups[1:] for rank in group.ranks))
        sentence = f"{name_ranks(others)} in another collective than the rest: {'; '.join(map(str, groups))}"
        return case.verdict(HangKind.HUNG, "hang_mismatch", sentence, suspects=others)
    sentence = "all ranks are in the collective and it does not end: the network between them, or a lost message"
    return case.verdict(HangKind.HUNG, "hang_collective", sentence)


def _apart(case: HangCase) -> HangVerdict | None:
    """Nobody is in a collective that shows (waits inside of C++ do not): who is idle where most are not?"""
    idle, working = case.those(Whereabouts.IDLE), case.those(Whereabouts.WORKING)
    if not idle:
        return case.verdict(HangKind.LONG_PHASE, "hang_all_working", f"{name_ranks(working)} at work")
    largest = case.groups[0]
    if len(case.groups) == 1 and not working:
        sentence = f"all ranks seen are at the same place, which is no collective: {largest}"
        return case.verdict(HangKind.LONG_PHASE, "hang_same_place", sentence)
    apart = tuple(rank for rank in idle if rank not in largest.ranks)
    is_still = not any(case.ranks[rank].moved for rank in largest.ranks)
    if apart and is_still and len(largest.ranks) > len(case.ranks) / 2:
        sentence = f"{name_ranks(apart)} idle, and not where most ranks are: {'; '.join(map(str, case.groups))}"
        return _patiently(case, "hang_apart", sentence, apart)
    return case.verdict(HangKind.UNCLEAR, "hang_unclear", "the evidence names nobody")


RULES: tuple[Callable[[HangCase], HangVerdict | None], ...] = (
    _stopped,
    _on_time,
    _traced,
    _blocked,
    _long_phase,
    _unseen,
    _outside,
    _all_waiting,
    _apart,
)
"""In order; the last always decides."""


def _patiently(case: HangCase, rule_id: str, sentence: str, suspects: tuple[Rank, ...]) -> HangVerdict:
    """A hang, once it has lasted long enough not to be an idle moment."""
    if case.progress.age_s >= case.policy.idle_s:
        return case.verdict(HangKind.HUNG, rule_id, sentence, suspects=suspects)
    return case.verdict(HangKind.UNCLEAR, f"{rule_id}_early", sentence, due_s=case.policy.idle_s)


def _in_state(case: HangCase, states: tuple[ProcessState, ...], age_s: float) -> tuple[Rank, ...]:
    return tuple(
        sorted(rank for rank, seen in case.ranks.items() if seen.state in states and seen.state_age_s >= age_s)
    )

"""What the evidence adds up to. Stacks are real dumps; each case is one picture of a gang of four."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import stack_dumps

from node_agent.domain.hang_rules import suspect
from node_agent.domain.hang_verdict import HangKind, HangPolicy, HangVerdict, name_ranks
from node_agent.domain.progress_limit import ProgressPolicy
from node_agent.domain.progress_watch import PhaseBegan, ProgressView, ProgressWatch, StepFinished, after, look
from node_agent.domain.rank_evidence import ProcessState, RankEvidence
from node_agent.domain.stack_dump import parse_last_dump
from node_agent.domain.stack_groups import RankStack, stack_of
from node_agent.domain.step_times import TrainingPhase
from training_topology.identity import Rank

PROGRESS = ProgressPolicy()


def read(text: str) -> RankStack:
    stack = stack_of(parse_last_dump(text))
    assert stack is not None
    return stack


WAITS = RankEvidence(state=ProcessState.SLEEPING, cpu_share=0.01, stack=read(stack_dumps.ALL_REDUCE), moved=False)
BACKWARD = replace(WAITS, stack=read(stack_dumps.DDP_BACKWARD))
ASLEEP = replace(WAITS, stack=read(stack_dumps.SLEEP))
LOADS = replace(WAITS, stack=read(stack_dumps.DATA_LOADER))
EVALUATES = replace(WAITS, stack=read(stack_dumps.EVALUATE), cpu_share=0.19, moved=True)
SAVES = replace(WAITS, stack=read(stack_dumps.TORCH_SAVE), cpu_share=0.2, moved=True, state=ProcessState.RUNNING)
COMPUTES = replace(ASLEEP, cpu_share=0.9, moved=True, state=ProcessState.RUNNING)
WORK_WAIT = replace(WAITS, stack=read(stack_dumps.WORK_WAIT))
MUTE = RankEvidence(state=ProcessState.SLEEPING, cpu_share=0.0)


def seen_at(age_s: float, declared: TrainingPhase | None = None) -> ProgressView:
    """A job with steps of 50 ms that has made no progress for this time."""
    watch, now_s = ProgressWatch(since_s=0.0), 20.0
    for step in range(1, 40):
        watch = after(watch, StepFinished(step=step), now_s=now_s, policy=PROGRESS)
        now_s += 0.05
    if declared is not None:
        watch = after(watch, PhaseBegan(rank=Rank(0), phase=declared), now_s=watch.since_s, policy=PROGRESS)
    return look(watch, now_s=watch.since_s + age_s, policy=PROGRESS)


def judged(
    *ranks: RankEvidence, age_s: float = 1.2, declared: TrainingPhase | None = None, world_size: int | None = None
) -> HangVerdict:
    evidence: Mapping[Rank, RankEvidence] = {Rank(rank): seen for rank, seen in enumerate(ranks)}
    return suspect(seen_at(age_s, declared), evidence, world_size=world_size or max(len(ranks), 1), policy=HangPolicy())


def gist(verdict: HangVerdict) -> tuple[HangKind, str, tuple[int, ...]]:
    return verdict.kind, verdict.rule_id, tuple(verdict.suspects)


STOPPED = RankEvidence(state=ProcessState.STOPPED, state_age_s=0.3)


@pytest.mark.parametrize("age_s", [0.3, 1.2, 900.0])
def test_a_stopped_process_is_the_suspect_whatever_the_clock_says(age_s: float) -> None:
    verdict = judged(WAITS, STOPPED, WAITS, WAITS, age_s=age_s)
    assert gist(verdict) == (HangKind.STOPPED, "hang_stopped", (1,))
    assert verdict.is_hang
    assert verdict.sentence.startswith("rank 1 stopped: process state T; no progress for")


@pytest.mark.parametrize("age_s", [0.1, 1.2])
def test_a_stop_of_a_moment_is_looked_at_again_and_not_acted_on(age_s: float) -> None:
    verdict = judged(WAITS, replace(STOPPED, state_age_s=0.1), WAITS, WAITS, age_s=age_s)
    assert gist(verdict) == (HangKind.UNCLEAR, "hang_stopped_early", ())
    assert verdict.look_again_s == 0.2


def test_a_stop_in_a_declared_phase_is_found() -> None:
    assert judged(STOPPED, WAITS, age_s=2.0, declared=TrainingPhase.CHECKPOINT).kind is HangKind.STOPPED


def test_all_stopped_is_said() -> None:
    verdict = judged(STOPPED, STOPPED)
    assert gist(verdict) == (HangKind.STOPPED, "hang_stopped", (0, 1))
    assert "ranks 0, 1 (all that are seen) stopped" in verdict.sentence


def test_a_main_thread_that_ended_while_the_process_lives() -> None:
    zombie = RankEvidence(state=ProcessState.ZOMBIE, state_age_s=1.0)
    assert gist(judged(WAITS, zombie)) == (HangKind.STOPPED, "hang_stopped", (1,))


def test_on_time_there_is_nothing_to_judge() -> None:
    verdict = judged(WAITS, ASLEEP, age_s=0.9)
    assert (verdict.kind, verdict.look_again_s) == (HangKind.ON_TIME, None)


@pytest.mark.parametrize("culprit", [ASLEEP, LOADS])
def test_an_idle_rank_outside_of_the_collective_is_the_suspect_after_a_while(culprit: RankEvidence) -> None:
    early = judged(WAITS, WAITS, culprit, BACKWARD, age_s=14.0)
    assert gist(early) == (HangKind.UNCLEAR, "hang_outside_early", ())
    assert early.look_again_s == pytest.approx(1.0)
    verdict = judged(WAITS, WAITS, culprit, BACKWARD, age_s=15.1)
    assert gist(verdict) == (HangKind.HUNG, "hang_outside", (2,))
    assert "rank 2 idle outside of the collective in which ranks 0, 1, 3 wait: rank 2:" in verdict.sentence


def test_one_dump_is_not_enough() -> None:
    verdict = judged(WAITS, replace(ASLEEP, moved=None), age_s=60.0)
    assert gist(verdict) == (HangKind.UNCLEAR, "hang_unseen", ())
    assert verdict.look_again_s == 0.2


@pytest.mark.parametrize(
    ("rank_0", "phase"), [(EVALUATES, TrainingPhase.EVALUATION), (SAVES, TrainingPhase.CHECKPOINT)]
)
def test_an_undeclared_phase_of_one_rank_is_recognised(rank_0: RankEvidence, phase: TrainingPhase) -> None:
    verdict = judged(rank_0, WAITS, WAITS, WAITS)
    assert (verdict.kind, verdict.recognised) == (HangKind.LONG_PHASE, phase)


def test_an_evaluation_of_all_ranks_is_recognised_even_when_they_sleep() -> None:
    asleep = replace(EVALUATES, cpu_share=0.0, moved=False)
    assert judged(asleep, asleep, asleep).recognised is TrainingPhase.EVALUATION


def test_an_evaluation_in_which_all_wait_for_an_idle_rank_is_no_excuse() -> None:
    gather = replace(WAITS, stack=read(stack_dumps.CHECKPOINT_GATHER))
    verdict = judged(gather, ASLEEP, gather, age_s=16.0)
    assert gist(verdict) == (HangKind.HUNG, "hang_outside", (1,))


def test_a_phase_that_exceeds_its_own_limit_is_judged_like_any_other() -> None:
    stuck = replace(SAVES, cpu_share=0.0, moved=False)
    fine = judged(stuck, WAITS, age_s=200.0, declared=TrainingPhase.CHECKPOINT)
    assert fine.kind is HangKind.ON_TIME
    late = judged(stuck, WAITS, age_s=301.0, declared=TrainingPhase.CHECKPOINT)
    assert gist(late) == (HangKind.HUNG, "hang_outside", (0,))


def test_a_rank_at_work_is_waited_for_but_not_for_ever() -> None:
    verdict = judged(COMPUTES, WAITS, age_s=590.0)
    assert gist(verdict) == (HangKind.LONG_PHASE, "hang_working_alone", ())
    assert verdict.look_again_s == pytest.approx(10.0)
    assert gist(judged(COMPUTES, WAITS, age_s=601.0)) == (HangKind.HUNG, "hang_outside_busy", (0,))
    declared = judged(COMPUTES, WAITS, age_s=700.0, declared=TrainingPhase.EVALUATION)
    assert gist(declared) == (HangKind.LONG_PHASE, "hang_working_alone", ())


def test_ranks_of_one_node_that_all_wait_say_that_the_culprit_is_elsewhere() -> None:
    verdict = judged(WAITS, BACKWARD, world_size=8, age_s=100.0)
    assert gist(verdict) == (HangKind.WAITS_ELSEWHERE, "hang_elsewhere", ())


def test_a_whole_gang_in_one_collective_has_no_suspect() -> None:
    assert judged(WAITS, WAITS, age_s=59.0).kind is HangKind.LONG_PHASE
    assert gist(judged(WAITS, WAITS, age_s=61.0)) == (HangKind.HUNG, "hang_collective", ())


def test_the_rank_in_another_collective_than_the_rest() -> None:
    other = replace(WAITS, stack=read(stack_dumps.BROADCAST))
    assert gist(judged(WAITS, WAITS, other, WAITS, age_s=61.0)) == (HangKind.HUNG, "hang_mismatch", (2,))


def test_all_at_one_place_outside_is_a_long_phase() -> None:
    assert gist(judged(LOADS, LOADS, LOADS, age_s=100.0)) == (HangKind.LONG_PHASE, "hang_same_place", ())
    assert gist(judged(COMPUTES, COMPUTES, age_s=100.0)) == (HangKind.LONG_PHASE, "hang_all_working", ())


def test_waits_that_leave_no_frame_still_show_who_is_apart() -> None:
    verdict = judged(WORK_WAIT, WORK_WAIT, LOADS, WORK_WAIT, age_s=16.0)
    assert gist(verdict) == (HangKind.HUNG, "hang_apart", (2,))
    assert judged(WORK_WAIT, WORK_WAIT, LOADS, WORK_WAIT, age_s=5.0).kind is HangKind.UNCLEAR


def test_half_against_half_names_nobody() -> None:
    assert gist(judged(WORK_WAIT, LOADS, age_s=100.0)) == (HangKind.UNCLEAR, "hang_unclear", ())


def test_most_at_work_names_nobody() -> None:
    verdict = judged(COMPUTES, COMPUTES, COMPUTES, LOADS, age_s=100.0)
    assert gist(verdict) == (HangKind.UNCLEAR, "hang_unclear", ())


def test_a_rank_in_uninterruptible_sleep() -> None:
    blocked = RankEvidence(state=ProcessState.BLOCKED, state_age_s=11.0, cpu_share=0.0, io_bytes=0)
    assert gist(judged(WAITS, blocked, age_s=12.0)) == (HangKind.HUNG, "hang_blocked", (1,))
    assert not judged(WAITS, replace(blocked, state_age_s=5.0), age_s=12.0).is_hang
    assert not judged(WAITS, replace(blocked, io_bytes=1 << 20), age_s=12.0).is_hang, "it writes"
    assert gist(judged(blocked, blocked, age_s=12.0)) == (HangKind.UNCLEAR, "hang_all_blocked", ())


def test_a_debugger_is_no_hang() -> None:
    traced = replace(ASLEEP, state=ProcessState.TRACED)
    assert gist(judged(WAITS, traced, age_s=400.0)) == (HangKind.LONG_PHASE, "hang_traced", ())


def test_a_mute_idle_rank_is_the_suspect_when_all_others_wait() -> None:
    assert gist(judged(WAITS, MUTE, age_s=16.0)) == (HangKind.HUNG, "hang_mute", (1,))
    assert not judged(WAITS, MUTE, age_s=5.0).is_hang
    assert not judged(ASLEEP, MUTE, age_s=16.0).is_hang, "nobody waits for it"
    assert not judged(WAITS, RankEvidence(), age_s=16.0).is_hang, "of it nothing is known at all"


def test_without_any_evidence_only_the_last_limit_decides() -> None:
    unknown = RankEvidence()
    assert judged(unknown, unknown, age_s=1_700.0).kind is HangKind.UNCLEAR
    verdict = judged(unknown, unknown, age_s=1_801.0)
    assert gist(verdict) == (HangKind.HUNG, "hang_overdue", ())


def test_overdue_names_who_is_outside() -> None:
    verdict = judged(WAITS, RankEvidence(), age_s=1_801.0)
    assert gist(verdict) == (HangKind.HUNG, "hang_overdue", (1,))
    assert "hang_unseen" in verdict.sentence


def test_nobody_seen_is_unclear() -> None:
    assert judged(world_size=4).kind is HangKind.UNCLEAR


def test_looks_become_rare() -> None:
    assert judged(COMPUTES, COMPUTES, age_s=10.0).look_again_s == pytest.approx(5.0)
    assert judged(COMPUTES, COMPUTES, age_s=500.0).look_again_s == pytest.approx(30.0)


def test_sentences_stay_short_in_a_large_gang() -> None:
    assert name_ranks(tuple(Rank(rank) for rank in range(1000))) == "ranks 0, 1, 2, 3, 4, 5, 6, 7, ..."

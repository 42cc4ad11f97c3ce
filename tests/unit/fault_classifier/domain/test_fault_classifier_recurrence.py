"""What counts as having happened before."""

from __future__ import annotations

from judge_story import died, lost, lost_peer, raised

from fault_classifier.domain.evidence import Generation, JobEvidence
from fault_classifier.domain.recurrence import (
    earlier_oom_at_step,
    earlier_same_exception,
    had_outside_cause,
    was_killed,
    without_progress,
)
from fault_contracts.agent import OomKill


def job(*generations: Generation) -> JobEvidence:
    return JobEvidence(job_id="job", generations=generations)


def generation(version: int, *exits, lost_nodes=()) -> Generation:
    return Generation(topology_version=version, exits=exits, lost=tuple(lost_nodes))


def test_only_older_generations_count_and_each_once() -> None:
    same = [died(rank, error=raised(), step=4) for rank in (0, 2)]
    past = job(generation(1, *same), generation(2, *same), generation(3, *same))
    assert len(earlier_same_exception(same[0], past, 3)) == 2
    assert earlier_same_exception(same[0], past, 1) == ()


def test_of_several_ranks_the_one_at_the_same_step_is_the_witness() -> None:
    past = job(generation(1, died(0, error=raised(), step=3), died(2, error=raised(), step=4)))
    (witness,) = earlier_same_exception(died(0, error=raised(), step=4), past, 2)
    assert witness.step == 4


def test_victims_and_generations_with_an_outside_cause_do_not_count() -> None:
    death = died(0, error=raised(), step=4)
    past = job(
        generation(1, death, died(2, signal=9)), generation(2, death, lost_nodes=[lost("n")]), generation(3, death)
    )
    assert len(earlier_same_exception(death, past, 4)) == 1
    peer = died(0, error=lost_peer(), step=4)
    assert earlier_same_exception(peer, job(generation(1, peer)), 2) == ()


def test_an_oom_kill_is_the_jobs_own_and_no_outside_cause() -> None:
    ended = died(0, signal=9, oom=OomKill.YES, step=4)
    assert not was_killed(ended)
    assert not had_outside_cause(generation(1, ended))
    assert had_outside_cause(generation(1, died(0, signal=9, oom=OomKill.UNKNOWN)))
    past = job(generation(1, ended))
    assert earlier_oom_at_step(ended, past, 2) == (ended,)
    assert earlier_oom_at_step(died(0, signal=9, oom=OomKill.YES), past, 2) == ()


def test_progress_is_another_checkpoint_or_another_known_step() -> None:
    now = died(0, error=raised(), checkpoint=100)
    earlier = (died(0, error=raised(), checkpoint=100), died(0, error=raised(), checkpoint=80))
    assert without_progress(now, earlier) == earlier[:1]
    placed = died(0, error=raised(), step=5, checkpoint=100)
    assert without_progress(placed, (died(0, error=raised(), step=6, checkpoint=100),)) == ()

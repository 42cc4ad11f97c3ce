"""When the judge speaks, when it waits, and when it takes a word back."""

from __future__ import annotations

from itertools import permutations

import pytest
from judge_story import GLOO_RESET, Judge, died, lost, lost_peer, raised

from fault_classifier.domain.classify import REVISIONS_MAX, JudgePolicy, next_deadline
from fault_classifier.domain.event import GangBegun, IncidentOver, JobOver, PieceSeen, SurroundingsSeen
from fault_classifier.domain.evidence import Surrounding
from fault_classifier.domain.fact_policy import FactPolicy


def test_evidence_that_stands_for_itself_is_judged_at_once() -> None:
    judge = Judge()
    verdicts = judge.see(died(2, signal=9))
    assert [verdict.cause for verdict in verdicts] == ["process_killed"]
    assert verdicts[0].classified_at == judge.now
    assert verdicts[0].topology_version == 1
    assert next_deadline(judge.job) is None


def test_victims_get_a_provisional_word_at_once_and_the_final_one_at_the_deadline() -> None:
    judge = Judge()
    (first,) = judge.see(died(0, error=lost_peer()))
    assert (first.cause, first.provisional, first.supersedes) == ("communication_error", True, None)
    assert judge.wait(1.7) == []
    assert judge.see(died(2, error=lost_peer(GLOO_RESET))) == []
    (final,) = judge.wait(0.1)
    assert (final.cause, final.provisional, final.supersedes) == ("communication_error", False, first.fault_id)
    assert judge.wait(10.0) == []


def test_a_cause_that_comes_in_time_is_judged_without_waiting_for_the_deadline() -> None:
    judge = Judge()
    judge.see(died(0, error=lost_peer()))
    judge.incident()
    judge.wait(1.5)
    verdicts = judge.see(lost("node-1"))
    assert [verdict.cause for verdict in verdicts] == ["agent_lost"]
    assert verdicts[0].reasons[1].rule_id == "victims"
    assert verdicts[0].reasons[1].evidence_ids == ("death-of-0",)
    assert judge.wait(1.0) == []


def test_the_incident_does_not_move_a_deadline_that_runs() -> None:
    judge = Judge()
    judge.see(died(0, error=lost_peer()))
    before = judge.job.generation(1).deadline_at
    judge.now = judge.now.replace(microsecond=500_000)
    judge.incident()
    assert judge.job.generation(1).deadline_at == before


def test_a_redelivery_changes_nothing() -> None:
    judge = Judge()
    death = died(2, signal=9)
    judge.see(death)
    before = judge.job
    assert judge.see(death) == []
    assert judge.job is before
    judge.incident()
    before = judge.job
    judge.incident()
    assert judge.job is before


def test_late_evidence_of_another_cause_revises_and_names_the_old_verdict() -> None:
    judge = Judge()
    first = judge.see(died(0, code=3))[0]
    second = judge.see(died(2, signal=9))[0]
    assert (first.cause, second.cause) == ("exit_code", "process_killed")
    assert second.supersedes == first.fault_id
    assert second.fault_id != first.fault_id
    assert [reason.rule_id for reason in second.counter_evidence] == ["unknown.exit_code"]
    assert [each.cause for each in second.alternatives] == ["exit_code"]


def test_late_evidence_of_the_same_cause_says_nothing_new() -> None:
    judge = Judge()
    judge.see(died(0, signal=9))
    assert judge.see(died(2, signal=9)) == []
    assert judge.rule_id == "classify.confirmed"


def test_a_verdict_of_nothing_known_is_revised_by_a_late_report() -> None:
    judge = Judge()
    judge.incident()
    judge.wait(2.0)
    assert [verdict.cause for verdict in judge.see(died(0, error=lost_peer()))] == ["communication_error"]
    assert [verdict.cause for verdict in judge.see(died(2, signal=9))] == ["process_killed"]
    assert [verdict.supersedes for verdict in judge.verdicts] == [
        None,
        judge.verdicts[0].fault_id,
        judge.verdicts[1].fault_id,
    ]


def test_revisions_come_to_an_end() -> None:
    judge = Judge()
    judge.incident()
    judge.wait(2.0)
    # Each of these is stronger than the one before it.
    stronger = [died(0, error=lost_peer()), died(2, lost_status=True), died(4, code=3), died(6, signal=24)]
    for piece in [*stronger, lost("node-9"), died(10, error=raised()), died(12, signal=11), died(14, signal=9)]:
        judge.see(piece)
    assert len(judge.verdicts) == REVISIONS_MAX + 1
    assert judge.rule_id == "classify.revised_enough"


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_last_word_does_not_depend_on_the_order_of_arrival(order: tuple[int, ...]) -> None:
    pieces = [
        died(0, error=lost_peer()),
        died(2, error=raised(), step=7),
        died(3, signal=6, node="node-1", ordinal=1),
        lost("node-2"),
    ]
    judge = Judge()
    for place in order:
        judge.see(pieces[place])
    last = judge.verdicts[-1]
    assert (last.cause, last.culprit.rank, last.reasons[0].rule_id) == (
        "python_exception",
        2,
        "unknown.python_exception",
    )
    assert [reason.rule_id for reason in last.counter_evidence] in (["platform.agent_lost"], [])


def test_on_one_node_the_first_death_is_the_cause_whatever_its_strength() -> None:
    judge = Judge()
    judge.see(died(3, signal=9, node="node-1", ordinal=1))
    assert judge.verdicts[-1].cause == "process_killed"
    judge.see(died(2, error=raised(), node="node-1", ordinal=0))
    assert (judge.verdicts[-1].cause, judge.verdicts[-1].culprit.rank) == ("python_exception", 2)


def test_generations_are_judged_apart() -> None:
    judge = Judge()
    judge.see(died(2, signal=9), 1)
    judge.see(died(2, signal=9, tag="b"), 2)
    assert [verdict.topology_version for verdict in judge.verdicts] == [1, 2]
    assert len({verdict.fault_id for verdict in judge.verdicts}) == 2


def test_a_closed_incident_is_not_waited_for() -> None:
    judge = Judge()
    judge.see(died(0, error=lost_peer()), 1)
    judge.see(died(0, error=lost_peer(), tag="b"), 2)
    judge.hear(IncidentOver(topology_version=2))
    assert [verdict.topology_version for verdict in judge.wait(5.0)] == [2]


def test_what_befalls_a_node_after_the_gang_runs_again_changes_no_verdict() -> None:
    judge = Judge()
    judge.see(died(0, error=raised()), 1)
    judge.hear(IncidentOver(topology_version=2))
    gone = Surrounding(evidence_id="c", kind="xid_79", node_id="node-0", sentence="off the bus", device="GPU-1", xid=79)
    assert judge.hear(SurroundingsSeen(topology_version=1, surroundings=(gone,))) == []
    assert judge.job.generation(1).surroundings == ()


def test_a_new_run_under_an_old_name_starts_without_a_past() -> None:
    judge = Judge()
    judge.see(died(2, error=raised(), step=40, tag="a"), 1)
    judge.hear(JobOver())
    judge.hear(GangBegun())
    assert judge.see(died(2, error=raised(), step=40, tag="b"), 2)[0].cause == "python_exception"


def test_a_gang_that_forms_again_in_mid_run_keeps_its_past() -> None:
    judge = Judge()
    judge.see(died(2, error=raised(), step=40, tag="a"), 1)
    judge.hear(GangBegun())
    assert judge.see(died(2, error=raised(), step=40, tag="b"), 2)[0].cause == "repeated_exception"


def test_the_summary_reads_as_a_paragraph() -> None:
    judge = Judge()
    judge.see(died(0, error=lost_peer()))
    text = judge.see(died(3, signal=9, step=41))[0].summary
    assert text.startswith("Job job, generation 1: The fault is with the platform")
    assert "rank 3, pid 1003, node node-1" in text
    assert "ank 3 on node-1 was ended by SIGKILL after step 41" in text
    assert text.endswith("1 rank died only of that.")


@pytest.mark.parametrize(
    "bad",
    [
        lambda: JudgePolicy(verdict_wait_s=-1),
        lambda: JudgePolicy(verdict_wait_s=61),
        lambda: FactPolicy(occurrences_min=1),
        lambda: FactPolicy(startup_s=-1),
    ],
)
def test_policies_that_would_blame_for_nothing_are_refused(bad) -> None:
    with pytest.raises(ValueError, match="must be"):
        bad()


def test_evidence_of_an_unknown_generation_opens_it() -> None:
    judge = Judge()
    judge.hear(PieceSeen(topology_version=7, piece=died(2, signal=9)))
    assert judge.job.generation(7).verdict is not None
    assert judge.job.generation(3).exits == ()

"""What is weighed at once, and what only once it is quiet."""

from __future__ import annotations

from judge_story import Judge, died, lost, lost_peer
from test_fault_classifier_log_row import row

from fault_classifier.domain.event import LinesSeen
from fault_classifier.domain.evidence import Generation
from fault_classifier.domain.novelty import is_news, kinds_of


def test_a_second_victim_is_no_news_and_a_cause_is() -> None:
    one = Generation(topology_version=1, exits=(died(0, error=lost_peer()),))
    judged = Generation(topology_version=1, exits=one.exits, judged=kinds_of(one))
    two = Generation(topology_version=1, exits=(*one.exits, died(2, error=lost_peer())), judged=judged.judged)
    assert not is_news(judged, two)
    killed = Generation(topology_version=1, exits=(*one.exits, died(4, signal=9)), judged=judged.judged)
    assert is_news(judged, killed)
    gone = Generation(topology_version=1, exits=one.exits, lost=(lost("n"),), judged=judged.judged)
    assert is_news(judged, gone)


def test_more_ranks_with_the_same_line_are_weighed_when_it_is_quiet() -> None:
    judge = Judge()
    judge.see(died(0, error=lost_peer()))
    judge.hear(LinesSeen(topology_version=1, rows=(row(3, "some_error", "symptom"),)))
    judge.hear(LinesSeen(topology_version=1, rows=(row(5, "some_error", "symptom"),)))
    assert judge.rule_id == "classify.counted"
    judge.hear(LinesSeen(topology_version=1, rows=(row(5, "other_error", "symptom"),)))
    assert judge.rule_id != "classify.counted"


def test_lines_before_any_fault_are_only_noted() -> None:
    judge = Judge()
    judge.hear(LinesSeen(topology_version=1, rows=(row(3),)))
    assert judge.rule_id == "classify.noted"
    assert judge.wait(60) == []


def test_the_lines_of_victims_are_weighed_when_it_is_quiet_however_many_have_died() -> None:
    judge = Judge()
    judge.hear(LinesSeen(topology_version=1, rows=(row(0, "cuda_oom", "cause"),)))
    judge.see(died(0))
    for rank in (1, 2, 3):
        judge.hear(LinesSeen(topology_version=1, rows=(row(rank, "peer_closed", "victim"),)))
        assert judge.rule_id == "classify.counted"
        judge.see(died(rank, error=lost_peer()))
        assert judge.rule_id == "classify.counted"
    judge.wait(1)
    assert judge.rule_id in ("classify.confirmed", "user.cuda_oom")

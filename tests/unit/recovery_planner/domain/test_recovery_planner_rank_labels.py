"""Labels are kept by rank over restarts and moves, in little room; what cannot be right is refused and said."""

from dataclasses import replace

from planner_story import Story

from fault_contracts.agent import RankLabelsReported
from recovery_planner.domain.rank_labels import NAMES_MAX, RanksLabelled
from training_topology.rank_labels import unpack_labels


def labelled(*labels: tuple[int, dict[str, str]], version: int = 1, node: str = "a") -> RanksLabelled:
    return RanksLabelled(
        reports=tuple(
            RankLabelsReported(node_id=node, job_id="job", topology_version=version, rank=rank, labels=values)
            for rank, values in labels
        )
    )


def test_labels_stay_with_their_rank_when_it_moves_to_another_node() -> None:
    story = Story().run("a", "b", "c")
    story.feed(labelled((0, {"dp": "0", "tp": "0"}), (3, {"dp": "1", "tp": "1"})))
    before = story.gang.labels
    story.lose("b")
    story.stop_all()
    story.classify()
    story.start_all()
    assert story.seats() == ["a", "c"]
    assert story.gang.labels == before
    assert unpack_labels(before)[3] == {"dp": "1", "tp": "1"}


def test_the_same_labels_after_a_restart_are_no_reason_to_write() -> None:
    story = Story().run()
    story.feed(labelled((0, {"dp": "0"})))
    story.recover()
    assert not story.feed(labelled((0, {"dp": "0"}), version=2)).durable
    assert story.feed(labelled((0, {"dp": "7"}), version=2)).durable
    story.feed(labelled((0, {"dp": "0"}), version=1))
    assert unpack_labels(story.gang.labels) == {0: {"dp": "7"}}, "a late word of the generation before"


def test_a_rank_that_the_job_does_not_have_is_refused_and_the_others_count() -> None:
    story = Story().run()
    result = story.feed(labelled((4, {"dp": "9"}), (1, {"dp": "1"})))
    assert "rank 4 on a: the job has 4 ranks" in "; ".join(reason.sentence for reason in result.reasons)
    assert unpack_labels(story.gang.labels) == {1: {"dp": "1"}}


def test_more_names_than_a_job_may_have_are_refused() -> None:
    story = Story().run()
    for rank in range(4):
        story.feed(labelled((rank, {f"{rank}-{number}": "x" for number in range(NAMES_MAX // 2)})))
    assert sorted(unpack_labels(story.gang.labels)) == [0, 1]
    assert "labels.refused" in story.rules


def test_labels_that_fill_the_record_are_refused_and_the_former_stay() -> None:
    story = Story(nnodes=2, nproc=512).run()
    story.feed(labelled((0, {"dp": "0"})))
    noise = [(rank, {f"n{n}": f"{hash((rank, n)):x}" * 7 for n in range(16)}) for rank in range(1_024)]
    story.feed(labelled(*noise))
    assert unpack_labels(story.gang.labels) == {0: {"dp": "0"}}
    assert "labels.too_large" in story.rules


def test_a_damaged_record_is_begun_anew() -> None:
    story = Story().run()
    story.state = replace(story.gang, labels="not packed")
    story.feed(labelled((0, {"dp": "0"})))
    assert "labels.damaged" in story.rules
    assert unpack_labels(story.gang.labels) == {0: {"dp": "0"}}

"""The words of a verdict: bounded, complete, and the same id for the same cause."""

from __future__ import annotations

from datetime import UTC, datetime

from judge_story import Judge, died, lost, lost_peer, raised, verdict_on

from fault_classifier.domain.verdict import REASONS_MAX


def test_the_same_evidence_gives_the_same_id_and_other_evidence_another() -> None:
    first, again = verdict_on(died(2, signal=9)), verdict_on(died(2, signal=9))
    assert first.fault_id == again.fault_id
    assert verdict_on(died(2, signal=9, tag="x")).fault_id != first.fault_id


def test_a_big_gang_gives_a_message_inside_its_limits() -> None:
    judge = Judge()
    for rank in range(500):
        judge.see(died(rank, error=lost_peer()))
    judge.see(lost("node-999"))
    verdict = judge.verdicts[-1]
    assert "500 other deaths are consequences" in verdict.reasons[1].sentence
    assert len(verdict.condition_ids) <= 64
    assert len(verdict.reasons) <= REASONS_MAX
    assert len(verdict.model_dump_json()) < 16_000


def test_monstrous_texts_are_cut() -> None:
    monster = raised("ValueError", "x" * 100_000, fingerprint="f")
    verdict = verdict_on(died(0, error=monster))
    assert len(verdict.summary) <= 8_192
    assert all(len(reason.sentence) <= 2_048 for reason in verdict.reasons)


def test_time_is_the_judges() -> None:
    judge = Judge(now=datetime(2031, 5, 5, tzinfo=UTC))
    assert judge.see(died(2, signal=9))[0].classified_at == datetime(2031, 5, 5, tzinfo=UTC)

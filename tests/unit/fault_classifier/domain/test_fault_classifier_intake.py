"""Evidence stays inside its bounds, and what the rules read survives that."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from judge_story import GLOO_CLOSED, Judge, died, lost_peer, raised

from fault_classifier.domain.evidence import (
    EXITS_MAX,
    GENERATIONS_MAX,
    MESSAGE_MAX,
    NOTES_MAX,
    Exit,
    Generation,
    Note,
)
from fault_classifier.domain.intake import add, compact, from_condition, from_lost_node, slim
from fault_classifier.domain.victim import victim_reason
from fault_contracts.agent import ExitStatus, WorkerError
from fault_contracts.health import Component, ConditionRaised, Tier, WorkerEvidence
from fault_contracts.payload import Reason
from fault_contracts.recovery import NodeLost

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def condition(worker: WorkerEvidence | None) -> ConditionRaised:
    return ConditionRaised(
        condition_id="c-1",
        node_id="node-1",
        component=Component.PROCESS,
        check="worker_exit" if worker else "xid_79",
        tier=Tier.FAILURE,
        reason="it ended",
        job_id="job",
        topology_version=1,
        worker=worker,
        raised_at=NOW,
    )


def test_a_dead_rank_becomes_a_bounded_death() -> None:
    error = WorkerError(
        type="ValueError",
        message="m" * 8_000,
        fingerprint="f",
        frames=tuple(f"frame {n}" for n in range(60)),
        source="error_file",
    )
    status = ExitStatus(rank=3, local_rank=1, pid=7, exit_code=1)
    seen = from_condition(
        condition(WorkerEvidence(exit=status, ordinal=1, error=error, step=9, stderr_tail=("x" * 5_000,) * 50))
    )
    assert isinstance(seen, Exit)
    assert (seen.evidence_id, seen.rank, seen.ordinal, seen.step) == ("c-1", 3, 1, 9)
    assert seen.error is not None
    assert len(seen.error.message) == MESSAGE_MAX
    assert seen.error.frames[-1] == "frame 59"
    assert sum(map(len, seen.stderr_tail)) < 2_000


def test_a_condition_without_a_worker_becomes_a_note() -> None:
    assert from_condition(condition(None)) == Note(
        evidence_id="c-1", node_id="node-1", check="xid_79", sentence="it ended"
    )


def test_the_same_loss_found_twice_is_one_piece() -> None:
    found = NodeLost(
        job_id="job", node_id="node-1", topology_version=1, reason=Reason(rule_id="r", sentence="gone"), lost_at=NOW
    )
    again = found.model_copy(update={"reason": Reason(rule_id="r", sentence="still gone")})
    once = add(Generation(topology_version=1), from_lost_node(found))
    assert add(once, from_lost_node(again)) is once


def test_ten_thousand_victims_are_a_number_and_the_culprit_is_kept() -> None:
    generation = Generation(topology_version=1)
    for rank in range(10_000):
        generation = add(generation, died(rank, error=lost_peer()))
    generation = add(generation, died(10_000, signal=9))
    assert len(generation.exits) == EXITS_MAX
    assert len(generation.exits) + generation.exits_dropped == 10_001
    assert [each.rank for each in generation.exits if victim_reason(each) is None] == [10_000]


def test_notes_and_generations_are_bounded() -> None:
    judge = Judge()
    for place in range(NOTES_MAX + 5):
        judge.see(Note(evidence_id=f"n{place}", node_id="node-0", check="x", sentence="s"))
    assert len(judge.job.generation(1).notes) == NOTES_MAX
    for version in range(1, GENERATIONS_MAX + 10):
        judge.see(died(0, code=3, tag=str(version)), version)
    assert len(judge.job.generations) == GENERATIONS_MAX


def test_a_record_full_of_everything_fits_the_bus() -> None:
    from fault_classifier.adapters.kv_evidence import encode_record
    from fault_classifier.application.ports import Record

    long = raised("ValueError", "m" * 5_000, frames=["f" * 150] * 12)
    judge = Judge()
    for version in range(1, GENERATIONS_MAX + 1):
        for rank in range(EXITS_MAX + 4):
            judge.see(died(rank, error=long, step=version, tail=("t" * 240,) * 6, tag=f"-{version}"), version)
    size = len(encode_record(Record(job=judge.job, pending=(), revision=None)))
    assert size < 500_000, f"{size} bytes"
    assert json.dumps(size)


def test_slimming_a_victim_leaves_a_victim() -> None:
    by_tail = died(0, code=1, tail=(GLOO_CLOSED,))
    assert victim_reason(slim(by_tail)) == victim_reason(by_tail)
    by_message = died(0, error=raised("RuntimeError", "x" * 200 + GLOO_CLOSED))
    assert victim_reason(slim(by_message)) == victim_reason(by_message)


def test_an_old_generation_still_knows_its_kill_among_many_exceptions() -> None:
    deaths = [died(rank, error=raised(), step=4) for rank in range(12)]
    old = compact(Generation(topology_version=1, exits=(*deaths, died(20, signal=9))))
    assert any(each.status.signal == 9 for each in old.exits)
    assert len(old.exits) < 6

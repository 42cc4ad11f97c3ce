"""Who did not come, who is behind, and whether ranks were in different collectives."""

from __future__ import annotations

import random

from fault_attribution.derive.collectives import collectives
from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role


def found(kind: str, rank: int | None, role: Role = Role.SYMPTOM, text: str = "", **captures: str) -> Finding:
    return Finding(
        finding_id=f"{kind}/{rank}/{text}{sorted(captures.items())}", kind=kind, role=role, rank=rank,
        source=Source.WORKER_STDERR, node="n1", captures=captures, text=text, stream=f"r{rank}",
    )  # fmt: skip


def timeout(rank: int, seq: str = "7", op: str = "ALLREDUCE", numel: str = "8", text: str = "") -> Finding:
    return found("nccl_timeout", rank, seq=seq, op=op, numel_in=numel, text=text)


def kinds(findings: list[Finding]) -> dict[str, list[int | None]]:
    told: dict[str, list[int | None]] = {}
    for each in collectives(findings):
        told.setdefault(each.kind, []).append(each.rank)
    return told


def test_a_known_rank_without_a_time_out_did_not_come() -> None:
    assert kinds([timeout(0), timeout(2), found("step_done", 1, Role.PROGRESS)]) == {"missing_rank": [1]}


def test_a_rank_that_only_noticed_a_gone_peer_was_there() -> None:
    assert kinds([timeout(0), timeout(2), found("peer_closed", 1, Role.VICTIM)]) == {"all_ranks_waited": [None]}


def test_a_rank_that_nothing_is_known_of_is_missing_when_the_world_is_known_and_nearly_all_waited() -> None:
    rows = [found("world_size", 0, Role.CONTEXT, world_size="8"), *(timeout(rank) for rank in range(7))]
    assert kinds(rows) == {"missing_rank": [7]}


def test_half_of_the_world_unseen_is_an_incomplete_log_and_nobodys_absence() -> None:
    rows = [found("world_size", 0, Role.CONTEXT, world_size="8"), *(timeout(rank) for rank in range(4))]
    assert "missing_rank" not in kinds(rows)


def test_a_report_names_the_missing_rank_also_without_any_time_out() -> None:
    assert kinds([found("collective_not_joined", None, missing="3, 5")]) == {"missing_rank": [3, 5]}


def test_the_root_is_missing_where_its_key_was_waited_for() -> None:
    assert kinds([found("store_key_timeout", 1, root="0"), found("store_key_timeout", 2, root="0")]) == {
        "missing_rank": [0]
    }


def test_the_rank_that_enqueued_least_is_behind() -> None:
    rows = [found("nccl_work_status", rank, enqueued=str(9 if rank == 2 else 10)) for rank in range(4)]
    behind = [each for each in collectives(rows) if each.kind == "rank_behind"]
    assert [(each.rank, each.captures["behind_by"]) for each in behind] == [(2, "1")]


def test_ranks_of_different_groups_are_not_compared() -> None:
    rows = [
        timeout(0, seq="4", op="ALLREDUCE", text="[PG ID 1 PG GUID 3 Rank 0]"),
        timeout(1, seq="9", op="BROADCAST", text="[PG ID 1 PG GUID 5 Rank 0]"),
    ]
    assert kinds(rows) == {"all_ranks_waited": [None]}


def test_different_operations_under_one_number_are_mismatched_and_the_few_are_named() -> None:
    rows = [timeout(0), timeout(2), timeout(1, op="BROADCAST")]
    assert kinds(rows)["mismatched_collectives"] == [1]


def test_different_sizes_are_mismatched_where_sizes_must_be_equal() -> None:
    assert "mismatched_collectives" in kinds([timeout(0), timeout(2), timeout(1, numel="9")])
    uneven = [timeout(0, op="ALLTOALL_BASE"), timeout(1, op="ALLTOALL_BASE", numel="9")]
    assert "mismatched_collectives" not in kinds(uneven)


def test_two_communicators_with_one_number_on_a_rank_are_not_guessed_apart() -> None:
    def call(rank: int, op: str) -> Finding:
        return found("nccl_coll_op", rank, op=op, op_count="1a", count_elements="4", datatype="7", world_size="8")

    assert "mismatched_collectives" in kinds([call(0, "AllReduce"), call(1, "AllGather")])
    both = [call(0, "AllReduce"), call(0, "AllGather"), call(1, "AllReduce"), call(1, "AllGather")]
    assert "mismatched_collectives" not in kinds(both)


def test_the_order_of_arrival_changes_nothing() -> None:
    rows = [timeout(0), timeout(2), timeout(1, op="BROADCAST"), found("step_done", 3, Role.PROGRESS)]
    once = list(collectives(rows))
    random.Random(4).shuffle(rows)
    assert list(collectives(rows)) == once

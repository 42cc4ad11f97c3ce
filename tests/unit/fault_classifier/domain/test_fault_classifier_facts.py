"""Evidence as findings: what stands for itself, what only follows, and that order of arrival plays no part."""

from __future__ import annotations

import random
from dataclasses import replace

from judge_story import died, faulted, lost, lost_peer, raised

from fault_attribution.finding import Role
from fault_classifier.domain.evidence import Generation, JobEvidence, Note, Surrounding
from fault_classifier.domain.fact_policy import FactPolicy
from fault_classifier.domain.facts import Facts, facts_of, first_of_each_node
from fault_classifier.domain.log_row import LogRow


def facts(generation: Generation) -> Facts:
    return facts_of(generation, JobEvidence(job_id="job"), FactPolicy())


def row(rank: int, kind: str = "cuda_oom", role: str = "cause") -> LogRow:
    return LogRow(
        kind=kind, role=role, signature_id=f"test.{kind}", node_id=f"node-{rank // 2}", rank=rank, stream="stderr",
        ordinal=3, text="a line", captures={"gib": "2"},
    )  # fmt: skip


def test_later_deaths_of_a_node_do_not_stand_for_themselves() -> None:
    generation = Generation(topology_version=1, exits=(died(3, signal=9, ordinal=1), died(2, code=3, ordinal=0)))
    kinds = [each.kind for each in facts(generation).findings]
    assert "exit_without_reason" in kinds
    assert "process_killed" not in kinds
    assert kinds.count("exit_status") == 2
    assert [each.rank for each in first_of_each_node(generation)] == [2]


def test_victims_are_told_as_victims_and_stand_for_nothing() -> None:
    found = facts(Generation(topology_version=1, exits=(died(2, error=lost_peer()), died(0, error=lost_peer()))))
    assert not found.stands
    assert [each.rank for each in found.victims] == [0, 2]
    assert {each.kind for each in found.findings if each.role is Role.VICTIM} == {"rank_followed"}
    assert "communication_error" in {each.kind for each in found.findings}


def test_with_a_cause_nobody_says_that_there_is_none() -> None:
    found = facts(Generation(topology_version=1, exits=(died(0, error=lost_peer()),), lost=(lost("node-7"),)))
    assert found.stands
    assert "communication_error" not in {each.kind for each in found.findings}


def test_lines_and_surroundings_are_findings_in_the_same_words() -> None:
    around = Surrounding(evidence_id="c", kind="nic_link_event", node_id="node-1", sentence="down", device="mlx5_0")
    note = Note(evidence_id="n", node_id="node-0", check="xid_31", sentence="Xid 31")
    generation = Generation(topology_version=1, rows=(row(2),), surroundings=(around,), notes=(note,))
    by_kind = {each.kind: each for each in facts(generation).findings}
    assert (by_kind["cuda_oom"].node, by_kind["cuda_oom"].rank, by_kind["cuda_oom"].captures) == (
        "node-1", 2, {"gib": "2"},
    )  # fmt: skip
    assert by_kind["nic_link_event"].device == "mlx5_0"
    assert by_kind["xid_31"].node == "node-0"


def test_a_place_of_a_stack_is_a_finding_of_its_own() -> None:
    stalled = replace(faulted("hang", 3), place="data_loader")
    by_kind = {each.kind: each for each in facts(Generation(topology_version=1, faulted=(stalled,))).findings}
    assert by_kind["stack_in_data"].rank == 3
    assert by_kind["missing_rank"].rank == 3
    assert by_kind["hang"].rank == 3


def test_the_facts_are_those_of_the_set() -> None:
    exits = [died(0, error=lost_peer()), died(2, error=raised()), died(3, signal=9, ordinal=1), died(5, code=4)]
    expected = {each.finding_id for each in facts(Generation(topology_version=1, exits=tuple(exits))).findings}
    for seed in range(8):
        random.Random(seed).shuffle(exits)
        found = facts(Generation(topology_version=1, exits=tuple(exits))).findings
        assert {each.finding_id for each in found} == expected

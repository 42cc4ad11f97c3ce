"""Each way in which a checkpoint can be wrong has its verdict; what cannot be seen does not overrule the rank."""

import pytest

from node_agent.domain.checkpoint_check import CheckLevel, Outcome, PathFacts, PathKind, judge

GOOD = PathFacts(kind=PathKind.FILE, files=1, size_bytes=10, changed_ns=1)
FOLDER = PathFacts(kind=PathKind.FOLDER, files=2, size_bytes=10, changed_ns=1)


@pytest.mark.parametrize(
    ("facts", "outcome", "rule"),
    [
        (PathFacts(kind=PathKind.MISSING), Outcome.NOT_YET, "checkpoint.missing"),
        (PathFacts(kind=PathKind.UNSEEN), Outcome.UNKNOWN, "checkpoint.unseen"),
        (PathFacts(kind=PathKind.UNREADABLE, problem="denied"), Outcome.BAD, "checkpoint.unreadable"),
        (PathFacts(kind=PathKind.FOLDER), Outcome.NOT_YET, "checkpoint.empty"),
        (
            PathFacts(kind=PathKind.FOLDER, files=1, size_bytes=9, manifest=("__1_0.distcp",)),
            Outcome.NOT_YET,
            "checkpoint.manifest",
        ),
        (PathFacts(kind=PathKind.FOLDER, files=1, size_bytes=9, manifest=()), Outcome.OK, "checkpoint.ok"),
        (PathFacts(kind=PathKind.FILE, files=1, size_bytes=0, empty=("x",)), Outcome.OK, "checkpoint.ok"),
        (GOOD, Outcome.OK, "checkpoint.ok"),
    ],
)
def test_existence(facts: PathFacts, outcome: Outcome, rule: str) -> None:
    verdict = judge("/c/10", CheckLevel.EXISTS, facts, None)
    assert (verdict.outcome, verdict.rule_id) == (outcome, rule)
    assert "/c/10" in verdict.sentence


@pytest.mark.parametrize(
    ("facts", "before", "rule"),
    [
        (GOOD, None, "checkpoint.changing"),
        (GOOD, PathFacts(kind=PathKind.FILE, files=1, size_bytes=5, changed_ns=1), "checkpoint.changing"),
        (GOOD, PathFacts(kind=PathKind.FILE, files=1, size_bytes=10, changed_ns=0), "checkpoint.changing"),
        (PathFacts(kind=PathKind.FILE, files=1, size_bytes=0, empty=("x",)), None, "checkpoint.empty"),
        (PathFacts(kind=PathKind.FILE, files=1, size_bytes=9, torn=("no end",)), None, "checkpoint.torn"),
        (GOOD, GOOD, "checkpoint.ok"),
        (FOLDER, FOLDER, "checkpoint.ok"),
    ],
)
def test_size(facts: PathFacts, before: PathFacts | None, rule: str) -> None:
    assert judge("/c", CheckLevel.SIZE, facts, before).rule_id == rule


def test_a_wrong_sum_counts_at_its_level_only() -> None:
    facts = PathFacts(kind=PathKind.FILE, files=1, size_bytes=10, mismatched=("model.pt differs",))
    assert judge("/c", CheckLevel.SIZE, facts, facts).outcome is Outcome.OK
    assert judge("/c", CheckLevel.CHECKSUM, facts, facts).rule_id == "checkpoint.checksum"

"""The scene of three strikes: what was done about the node is held against what had to be."""

from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.payload import Reason
from fault_contracts.remediation import NodePhase, NodeTended
from phalanx_cli.demo.inject import Injection
from phalanx_cli.demo.judgement import FaultResult, Injected
from phalanx_cli.demo.scenario import Fault
from phalanx_cli.demo.story import JobStory
from phalanx_cli.demo.strikes import FRESH, SICK, judge_strikes, named, over, tended_words

AT = datetime(2026, 1, 1, tzinfo=UTC)
GPU = "GPU-1"
ENOUGH = "3.0 stories count, and 2.9 are enough to replace it"


def tended(
    node_id: str, phase: NodePhase, *, before: NodePhase = NodePhase.DRAINING, action: str = "",
    cause: str = "gpu_memory",
    at_s: float = 0, rule_id: str = "r", sentence: str = "because", withheld_by: str = "",
) -> NodeTended:  # fmt: skip
    return NodeTended(
        node_id=node_id, before=before, phase=phase, action=action, cause=cause, withheld_by=withheld_by,
        reason=Reason(rule_id=rule_id, sentence=sentence), tended_at=AT + timedelta(seconds=at_s),
    )  # fmt: skip


def ordered(action: str, *, at_s: float, sentence: str = "because", cause: str = "gpu_memory") -> NodeTended:
    return tended(SICK, NodePhase.REMEDIATING, action=action, at_s=at_s, sentence=sentence, cause=cause)


PASSED = tended(SICK, NodePhase.OK, before=NodePhase.PROBATION)
GIVEN_BACK = tended(SICK, NodePhase.REPLACED, rule_id="pool.named")
CAME = tended(FRESH, NodePhase.PROBATION, at_s=9)
WHOLE = (
    ordered("reset_gpu", at_s=-20),
    PASSED,
    ordered("reset_gpu", at_s=-10),
    PASSED,
    ordered("replace_node", at_s=2, sentence=ENOUGH, cause="device_held"),
    GIVEN_BACK,
    CAME,
)


def judged(*events: NodeTended, listed: str = GPU) -> FaultResult:
    story = JobStory("third-strike", ranks_per_node=2)
    for event in events:
        story.apply(event)
    story.quarantined.update(listed.split())
    injection = Injection(fault=Fault.THIRD_STRIKE, sentence="x", node_id=SICK, rank=None, gpu_uuid=GPU)
    return judge_strikes(story, Injected(injection=injection, at=AT, incidents_before=0))


def test_two_resets_and_a_replacement_with_the_gpu_listed_and_the_fresh_node_in_use_hold() -> None:
    result = judged(*WHOLE)
    assert result.problems == ()
    assert result.outcome == "replaced"
    assert result.suspect == SICK
    assert result.verdict == "device_held, replace_node"
    assert (result.injected_to_seen_s, result.injected_to_resumed_s) == (2, 9)


@pytest.mark.parametrize(
    ("events", "listed", "problem"),
    [
        (WHOLE[2:], GPU, "ordered was reset_gpu, replace_node, and reset_gpu, reset_gpu, replace_node was due"),
        (WHOLE[:-3], GPU, "node-sick is ok, not replaced"),
        (WHOLE[:-1], GPU, "node-fresh is not in use"),
        (WHOLE, "", "the ledger lists nothing, and GPU-1 was due"),
        (WHOLE, "GPU-1 GPU-2", "the ledger lists GPU-1, GPU-2, and GPU-1 was due"),
        ((*WHOLE, tended(FRESH, NodePhase.DRAINING, action="reset_gpu")), GPU, "something was ordered of node-fresh"),
        ((ordered("reset_gpu", at_s=-30, cause="xid_31"), *WHOLE[1:]), GPU, "the verdict is xid_31, reset_gpu"),
        ((*WHOLE[:4], ordered("replace_node", at_s=2), *WHOLE[5:]), GPU, "no reason of the last order names enough"),
        ((), GPU, "ordered was nothing"),
    ],
)
def test_whatever_is_missing_is_told(events: tuple[NodeTended, ...], listed: str, problem: str) -> None:
    assert any(problem in found for found in judged(*events, listed=listed).problems)


def test_what_was_withheld_was_not_ordered() -> None:
    withheld = tended(SICK, NodePhase.DRAINING, action="reset_gpu", withheld_by="breaker")
    assert judged(withheld, *WHOLE).problems == ()
    assert tended_words(withheld) == "node-sick is draining, reset_gpu is withheld (breaker): because"
    assert tended_words(PASSED, reason=False) == "node-sick is ok"


def test_the_scene_waits_for_the_probations_and_for_the_pool() -> None:
    story = JobStory("third-strike", ranks_per_node=2)
    for event in WHOLE[:3]:
        story.apply(event)
    assert (over(story), named(story)) == (1, False)
    for event in WHOLE[3:]:
        story.apply(event)
    assert (over(story), named(story)) == (2, True)

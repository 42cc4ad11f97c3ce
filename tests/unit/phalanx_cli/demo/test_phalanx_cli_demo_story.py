"""What the demo knows of a job from its events, in whatever order they come."""

from datetime import UTC, datetime, timedelta

from fault_contracts.agent import CheckpointReported, StepReported, WorkersStarted
from fault_contracts.faults import Action, Attribution, FaultClassified
from fault_contracts.payload import Reason
from fault_contracts.recovery import (
    GangFormed,
    IncidentClosed,
    IncidentOpened,
    NodeAssignment,
    PhaseTimes,
    RecoveryPlanned,
)
from fault_contracts.recovery_level import RecoveryLevel
from phalanx_cli.demo.story import JobStory

AT = datetime(2026, 1, 1, tzinfo=UTC)
WHY = Reason(rule_id="r", sentence="s")


def formed() -> JobStory:
    story = JobStory("j", ranks_per_node=2)
    story.apply(GangFormed(job_id="j", topology_version=1, nodes=("a", "b"), spares=("c",), world_size=4, formed_at=AT))
    return story


def started(node: str, version: int, pids: tuple[int, ...]) -> WorkersStarted:
    return WorkersStarted(
        node_id=node, instance_id="i", job_id="j", topology_version=version, operation_id="o", pids=pids,
        source="nursery", duration_s=0.1,
    )  # fmt: skip


def step(node: str, version: int, number: int) -> StepReported:
    return StepReported(node_id=node, job_id="j", topology_version=version, step=number, first=False, reported_at=AT)


def saved(rank: int, number: int, version: int = 1) -> CheckpointReported:
    return CheckpointReported(
        node_id="a", job_id="j", topology_version=version, rank=rank, step=number, path="/c", saved_at=AT
    )


def opened(incident: str, version: int) -> IncidentOpened:
    return IncidentOpened(
        incident_id=incident, job_id="j", topology_version=version, trigger=WHY, fault_observed_at=AT, opened_at=AT
    )


def closed(incident: str, version: int) -> IncidentClosed:
    return IncidentClosed(
        incident_id=incident, job_id="j", outcome="recovered", topology_version=version, attempts=1,
        attribution=Attribution.PLATFORM, phases=PhaseTimes(), reason=WHY, closed_at=AT + timedelta(seconds=1),
    )  # fmt: skip


def verdict(version: int, cause: str) -> FaultClassified:
    return FaultClassified(
        fault_id=f"f{version}{cause}", job_id="j", topology_version=version, attribution=Attribution.PLATFORM,
        cause=cause, confidence=1, action=Action.RESTART_PROCESS, reasons=(WHY,), summary="", classified_at=AT,
    )  # fmt: skip


def planned(incident: str, version: int, *moves: NodeAssignment) -> RecoveryPlanned:
    return RecoveryPlanned(
        incident_id=incident, job_id="j", attempt=1, level=RecoveryLevel.PROCESS, topology_version=version,
        moves=moves, checkpoint_step=20, restarts_left=1, reasons=(WHY,), planned_at=AT,
    )  # fmt: skip


def test_a_checkpoint_counts_when_every_rank_confirmed_it() -> None:
    story = formed()
    for rank in (0, 1, 2):
        story.apply(saved(rank, 20))
    assert story.checkpoint is None
    story.apply(saved(3, 20))
    story.apply(saved(0, 40))
    assert story.checkpoint == 20


def test_the_step_of_a_job_is_that_of_its_slowest_node_and_unknown_until_all_told() -> None:
    story = formed()
    story.apply(step("a", 1, 9))
    assert story.step is None
    assert not story.training
    story.apply(step("b", 1, 7))
    assert story.step == 7
    assert story.training


def test_the_spare_takes_the_ranks_of_the_lost_node() -> None:
    story = formed()
    story.apply(started("b", 1, (10, 11)))
    assert story.pid_of(3) == 11
    story.apply(opened("i", 1))
    row = NodeAssignment(node_rank=1, node_id="c", address="x", nproc=2)
    story.apply(planned("i", 2, row))
    assert story.rank_table == ["a", "c"]
    assert story.spares == []
    assert story.pid_of(3) is None, "the pids of the generation before are not those of this one"
    story.apply(started("c", 2, (20, 21)))
    assert story.pid_of(3) == 21
    assert story.holder(3) == ("c", 1)


def test_a_recovery_starts_progress_anew() -> None:
    story = formed()
    story.apply(step("a", 1, 30))
    story.apply(step("b", 1, 30))
    for rank in range(4):
        story.apply(saved(rank, 20))
    story.apply(opened("i", 1))
    assert not story.training
    story.apply(planned("i", 2))
    assert (story.step, story.checkpoint, story.base_step) == (None, None, 20)
    story.apply(step("a", 1, 31))
    story.apply(saved(0, 40, version=1))
    assert story.step is None, "a late report of the generation before is no progress"


def test_a_verdict_belongs_to_its_incident_also_when_it_came_before_it() -> None:
    story = formed()
    story.apply(verdict(1, "first"))
    story.apply(opened("i", 1))
    story.apply(closed("i", 2))
    story.apply(opened("k", 2))
    story.apply(verdict(2, "second"))
    found = [story.verdict_of(incident) for incident in story.incidents]
    assert [v.cause for v in found if v] == ["first", "second"]


def test_a_later_verdict_supersedes_the_earlier_one() -> None:
    story = formed()
    story.apply(opened("i", 1))
    story.apply(verdict(1, "guess"))
    story.apply(verdict(1, "sure"))
    found = story.verdict_of(story.incidents[0])
    assert found is not None
    assert found.cause == "sure"

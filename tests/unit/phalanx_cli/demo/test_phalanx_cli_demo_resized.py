"""The scene without a spare: what of a gang that shrinks and grows again is held against what was injected."""

from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.faults import Action, Attribution, Culprit, FaultClassified
from fault_contracts.payload import Reason
from fault_contracts.recovery import IncidentClosed, IncidentOpened, PhaseTimes, RecoveryPlanned, TrainingResumed
from fault_contracts.recovery_level import RecoveryLevel
from phalanx_cli.demo.inject import Injection
from phalanx_cli.demo.judgement import Injected, judge_recovery
from phalanx_cli.demo.scenario import Fault
from phalanx_cli.demo.story import JobStory

ALL_NEW = {1: {rank: 10 + rank for rank in range(4)}, 3: {rank: 20 + rank for rank in range(4)}}
AT = datetime(2026, 1, 1, tzinfo=UTC)
WHY = Reason(rule_id="r", sentence="because")


def resized(shrunk: int = 1, grown: int = 2, *, outcome: str = "recovered") -> JobStory:
    """The gang loses a node, and has two again after a stop that was planned."""
    job = JobStory("j", ranks_per_node=2)
    sizes = ((1, 2, shrunk, "recovered"), (2, shrunk, grown, outcome))
    for version, before, nnodes, ending in sizes:
        incident_id = f"incident-{version}"
        job.apply(
            IncidentOpened(
                incident_id=incident_id, job_id="j", topology_version=version, trigger=WHY, fault_observed_at=AT,
                opened_at=AT,
            )
        )  # fmt: skip
        job.apply(
            RecoveryPlanned(
                incident_id=incident_id, job_id="j", attempt=1, level=RecoveryLevel.PROCESS,
                topology_version=version + 1, restarts_left=1, reasons=(WHY,), planned_at=AT, nnodes=nnodes,
                nnodes_before=before,
            )
        )  # fmt: skip
        resumed_at = AT + timedelta(seconds=2)
        job.apply(
            TrainingResumed(
                incident_id=incident_id, job_id="j", topology_version=version + 1, by_step=True, resumed_at=resumed_at
            )
        )
        job.apply(
            IncidentClosed(
                incident_id=incident_id, job_id="j", outcome=ending, topology_version=version + 1, attempts=1,
                attribution=Attribution.PLATFORM, phases=PhaseTimes(total_s=1.0), reason=WHY, closed_at=AT,
            )
        )  # fmt: skip
    job.apply(
        FaultClassified(
            fault_id="f", job_id="j", topology_version=1, attribution=Attribution.PLATFORM, cause="agent_lost",
            culprit=Culprit(node_id="a"), confidence=1, action=Action.RESTART_PROCESS, reasons=(WHY,), summary="",
            classified_at=AT,
        )
    )  # fmt: skip
    return job


def lost_node() -> Injected:
    gone = Injection(fault=Fault.NO_SPARE, sentence="x", node_id="a", rank=None)
    return Injected(injection=gone, at=AT, incidents_before=0)


def test_a_gang_that_shrinks_and_grows_again_holds() -> None:
    assert judge_recovery(resized(), lost_node(), ALL_NEW).problems == ()


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (resized(shrunk=2), "[2, 2] nodes after its plans"),
        (resized(grown=1), "[1, 1] nodes after its plans"),
        (resized(outcome="failed"), "the incident is failed"),
    ],
)
def test_a_gang_that_does_not_shrink_or_does_not_grow_is_a_problem(job: JobStory, wanted: str) -> None:
    assert any(wanted in problem for problem in judge_recovery(job, lost_node(), ALL_NEW).problems)

"""A journal told by hand: one gang, one incident that recovers, one that is open."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from fault_contracts.accounts import IncidentAccount, JudgedFault, NodeTaken
from fault_contracts.faults import Action, Attribution, Culprit, FaultClassified
from fault_contracts.payload import Payload, Reason
from fault_contracts.recovery import (
    GangFormed,
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    JobOutcome,
    JournalEntry,
    PhaseTimes,
    RecoveryPlanned,
    TrainingResumed,
)
from fault_contracts.recovery_level import RecoveryLevel
from phalanx_cli.journal.record import Entry

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
JOB = "llm"


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def why(sentence: str, *evidence: str, rule: str = "some.rule", weight: float | None = None) -> Reason:
    return Reason(rule_id=rule, sentence=sentence, evidence_ids=evidence, weight=weight)


def formed(seconds: float = 0.0, *, version: int = 1) -> GangFormed:
    return GangFormed(
        job_id=JOB, topology_version=version, nodes=("a", "b"), spares=("c",), world_size=4, formed_at=at(seconds)
    )


def opened(incident: str = "inc-1", seconds: float = 60.0, *, version: int = 1) -> IncidentOpened:
    return IncidentOpened(
        incident_id=incident,
        job_id=JOB,
        topology_version=version,
        trigger=why("rank 3 on b ended by signal 9", "msg-death"),
        node_id="b",
        rank=3,
        fault_observed_at=at(seconds),
        opened_at=at(seconds + 0.1),
    )


def judged(fault: str = "fault-1", *, version: int = 1) -> JudgedFault:
    return JudgedFault(
        fault_id=fault,
        topology_version=version,
        attribution=Attribution.HARDWARE,
        cause="gpu_fell_off_bus",
        action=Action.REPLACE_NODE,
        confidence=0.97,
        culprit_node_id="b",
        reasons=(why("Xid 79 on b", "cond-1", weight=6.0),),
    )


def verdict(fault: str = "fault-1", seconds: float = 60.4, *, version: int = 1) -> FaultClassified:
    return FaultClassified(
        fault_id=fault,
        job_id=JOB,
        topology_version=version,
        attribution=Attribution.HARDWARE,
        cause="gpu_fell_off_bus",
        culprit=Culprit(node_id="b"),
        confidence=0.97,
        action=Action.REPLACE_NODE,
        reasons=(
            why("Xid 79 on b", "cond-1", weight=6.0),
            why("the device answers no more", "cond-2", rule="live.gpu", weight=1.5),
        ),
        summary="a GPU is gone",
        classified_at=at(seconds),
    )


def planned(incident: str = "inc-1", seconds: float = 60.5, *, fault: str = "fault-1") -> RecoveryPlanned:
    return RecoveryPlanned(
        incident_id=incident,
        job_id=JOB,
        attempt=1,
        level=RecoveryLevel.JOB,
        topology_version=2,
        fault_id=fault,
        attribution=Attribution.HARDWARE,
        cause="gpu_fell_off_bus",
        checkpoint_step=40,
        restarts_left=2,
        reasons=(why("Xid 79 on b", "cond-1", weight=6.0), why("c takes node_rank 1 from b", rule="placement.spare")),
        verdict=judged(fault),
        planned_at=at(seconds),
    )


def resumed(incident: str = "inc-1", seconds: float = 62.0) -> TrainingResumed:
    return TrainingResumed(
        incident_id=incident, job_id=JOB, topology_version=2, step=41, by_step=True, resumed_at=at(seconds)
    )


def closed(incident: str = "inc-1", seconds: float = 62.0, *, account: bool = True) -> IncidentClosed:
    return IncidentClosed(
        incident_id=incident,
        job_id=JOB,
        outcome="recovered",
        topology_version=2,
        attempts=1,
        attribution=Attribution.HARDWARE,
        cause="gpu_fell_off_bus",
        phases=PhaseTimes(
            detect_s=0.1, stop_s=0.3, plan_s=0.1, start_s=0.5, first_step_s=1.0, total_s=2.0, steps_lost=8
        ),
        account=IncidentAccount(
            levels=(RecoveryLevel.JOB,),
            faults=(judged(),),
            nodes_taken=(NodeTaken(node_rank=1, node_id="c", from_node_id="b", because="gpu_fell_off_bus is blamed"),),
            ranks=4,
            ranks_after=4,
            down_s=2.0,
            down_gpu_s=8.0,
            steps_redone=8,
            step_s=0.5,
            redone_gpu_s=16.0,
        )
        if account
        else None,
        reason=why("every node trains"),
        closed_at=at(seconds),
    )


def ended(seconds: float = 100.0) -> JobEnded:
    return JobEnded(
        job_id=JOB,
        outcome=JobOutcome.SUCCEEDED,
        topology_version=2,
        restarts=1,
        reason=why("all ranks ended with exit code 0"),
        ended_at=at(seconds),
    )


def recovered() -> list[JournalEntry]:
    return [formed(), opened(), planned(), resumed(), closed()]


def entries(payloads: Iterable[Payload], *, first: int = 1, sequence: int = 1, without: Any = ()) -> list[Entry]:
    """Numbered as the planner numbers them, in the order of the stream; `without`: numbers that were lost."""
    made = []
    for number, payload in enumerate(payloads, start=first):
        numbered = payload.model_copy(update={"entry": number}) if isinstance(payload, JournalEntry) else payload
        if number not in without:
            made.append(
                Entry(payload=numbered, message_id=f"msg-{number}", at=NOON, sequence=sequence + number - first)
            )
    return made

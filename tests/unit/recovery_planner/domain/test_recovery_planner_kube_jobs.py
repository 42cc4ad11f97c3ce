"""Decisions about a job, one look at a time; whole lives are in tests/kube/test_job_operator.py."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fault_contracts.agent import JobSpec
from fault_contracts.payload import Reason as Why
from fault_contracts.recovery import JobOutcome
from recovery_planner.domain.gang import Ending, Gang, Phase
from recovery_planner.domain.kube_effects import (
    CreatePod,
    Decision,
    DeletePod,
    JobCondition,
    Reason,
    State,
    TellEvent,
    WriteStatus,
)
from recovery_planner.domain.kube_gang_view import gang_view
from recovery_planner.domain.kube_job_decision import earliest, later_than
from recovery_planner.domain.kube_job_end import end_verdict
from recovery_planner.domain.kube_job_halts import stalled_event
from recovery_planner.domain.kube_job_seen import Problem, Seen
from recovery_planner.domain.kube_job_spec import JobWish, read_wish
from recovery_planner.domain.kube_job_status import JobMemory, Word, read_memory, said, state_of
from recovery_planner.domain.kube_job_words import standing_words
from recovery_planner.domain.kube_jobs import reconcile
from recovery_planner.domain.kube_launcher import PodEnd
from recovery_planner.domain.kube_pods import GangView, NodeView, PodView, read_node, read_pod
from recovery_planner.domain.kube_seats import nodes_in_doubt, seats_of
from recovery_planner.domain.member import Member, Standing

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def wish(**spec: Any) -> JobWish:
    template = {"spec": {"containers": [{"name": "t", "command": ["phalanx", "run", "x.py"]}]}}
    meta = {"name": "llm", "namespace": "ml", "uid": "u", "generation": 3}
    return read_wish({"metadata": meta, "spec": {"nnodes": 2, "template": template, **spec}})


def pod(index: int, **fields: Any) -> PodView:
    values: dict[str, Any] = {"running": True, "end": PodEnd.NOT_YET, "gone_by": None, "owner_uid": "u"}
    return PodView(name=f"llm-{index}", uid=f"p{index}", index=index, node=f"n{index}", **{**values, **fields})


def ended(index: int, end: PodEnd, code: int | None = None, **fields: Any) -> PodView:
    return pod(index, running=False, end=end, exit_code=code, **fields)


UNDER_WAY = JobMemory(tries=1, try_since=NOW - timedelta(seconds=60), admitted_at=NOW - timedelta(seconds=50))
GANG = GangView(phase="running", topology_version=1, nnodes=2, restarts=0)


def decide(seen: Seen, memory: JobMemory = UNDER_WAY, **spec: Any) -> Decision:
    return reconcile(wish(**spec), memory, seen, NOW)


def of(decision: Decision, sort: type) -> list[Any]:
    return [effect for effect in decision.effects if isinstance(effect, sort)]


def conditions(decision: Decision) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in decision.status["conditions"]}


def test_a_try_is_remembered_before_the_first_pod_is_made() -> None:
    first = decide(Seen(status=None), JobMemory())
    assert of(first, CreatePod) == []
    assert first.status["trySince"] == "2030-01-01T12:00:00Z"
    second = decide(Seen(status=first.status), read_memory(first.status))
    assert [effect.index for effect in of(second, CreatePod)] == [0, 1]


def test_events_and_status_stand_before_the_deeds_that_they_remember() -> None:
    decision = decide(Seen(status=None, pods=(pod(0), ended(1, PodEnd.FAILED, 137))))
    sorts = [type(effect) for effect in decision.effects]
    assert sorts.index(TellEvent) < sorts.index(WriteStatus) < sorts.index(DeletePod)
    assert decision.status["countedPods"] == ["p1"]


def test_a_failed_pod_is_counted_once() -> None:
    seen = Seen(status=None, pods=(pod(0), ended(1, PodEnd.FAILED, 137)))
    first = decide(seen)
    again = decide(seen, read_memory(first.status))
    assert first.status["podFailures"] == again.status["podFailures"] == 1
    assert of(again, DeletePod) == of(first, DeletePod), "whoever was killed before the deletion does it now"


def test_the_same_world_is_not_written_twice() -> None:
    seen = Seen(status=None, pods=(pod(0), pod(1)), gang=GANG)
    status = decide(seen).status
    again = decide(replace(seen, status=status), read_memory(status))
    assert again.effects == ()


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    dying = replace(wish(), deleting=True)
    assert reconcile(dying, UNDER_WAY, Seen(status=None, pods=(pod(0),)), NOW).effects == ()


@pytest.mark.parametrize(
    ("code", "gang", "reason"),
    [
        (1, None, Reason.JOB_FAILED),
        (1, replace(GANG, phase="ended", outcome="failed_user", ended_at=NOW), Reason.USER_FAULT),
        (1, replace(GANG, phase="ended", outcome="failed_budget", ended_at=NOW), Reason.RESTART_BUDGET),
        (78, None, Reason.LAUNCHER_REFUSED),
    ],
)
def test_the_launchers_code_ends_the_job_and_the_record_says_why(
    code: int, gang: GangView | None, reason: Reason
) -> None:
    end = PodEnd.REFUSED if code == 78 else PodEnd.JOB_FAILED
    decision = decide(Seen(status=None, pods=(pod(0), ended(1, end, code)), gang=gang))
    assert conditions(decision)["Failed"] == ("True", reason)


def test_the_end_of_a_run_before_ends_nothing() -> None:
    old = replace(GANG, phase="ended", outcome="failed_no_capacity", ended_at=NOW - timedelta(hours=1))
    assert end_verdict(UNDER_WAY, Seen(status=None, pods=(pod(0), pod(1)), gang=old)) is None
    word = end_verdict(UNDER_WAY, Seen(status=None, pods=(ended(0, PodEnd.SUCCEEDED, 0),), gang=old))
    assert word is not None
    assert word.type is JobCondition.SUCCEEDED


def test_a_job_that_succeeds_in_the_moment_of_its_suspension_has_succeeded() -> None:
    decision = decide(Seen(status=None, pods=(ended(0, PodEnd.SUCCEEDED, 0), pod(1))), suspend=True)
    assert conditions(decision)["Succeeded"][0] == "True"


@pytest.mark.parametrize(
    ("node", "gang", "lost"),
    [
        (NodeView(name="n1", exists=False), None, True),
        (NodeView(name="n1", exists=True, ready=False, away_since=NOW - timedelta(hours=1)), None, False),
        (NodeView(name="n1", exists=True, ready=False, away_since=NOW - timedelta(seconds=30)), "lost", False),
        (NodeView(name="n1", exists=True, ready=False, away_since=NOW - timedelta(seconds=90)), "lost", True),
        (NodeView(name="n1", exists=True, ready=True), "lost", False),
        (NodeView(name="n1", exists=True, ready=False, out_of_service=True), None, True),
    ],
)
def test_a_pod_is_taken_for_dead_only_when_it_is_fenced(node: NodeView, gang: str | None, lost: bool) -> None:
    view = None if gang is None else replace(GANG, lost=frozenset({"n1"}))
    seen = Seen(status=None, pods=(pod(0), pod(1, gone_by=NOW)), nodes={"n1": node}, gang=view)
    deletes = seats_of(wish(), UNDER_WAY, seen, NOW).deletes
    assert [each.grace_s for each in deletes] == ([0] if lost else [])


def test_blamed_hardware_is_left_when_its_ranks_have_been_stopped() -> None:
    gang = replace(GANG, condemned=frozenset({"n1"}))
    seen = Seen(status=None, pods=(pod(0), pod(1)), gang=gang)
    assert of(decide(seen), DeletePod) == [DeletePod(name="llm-1", uid="p1")]
    assert of(decide(replace(seen, gang=replace(gang, phase="stopping"))), DeletePod) == []


def test_nodes_are_looked_at_when_a_pod_is_overdue_or_the_planner_has_given_them_up() -> None:
    seen = Seen(status=None, pods=(pod(0, gone_by=NOW), pod(1), pod(2)), gang=replace(GANG, lost=frozenset({"n2"})))
    assert nodes_in_doubt(seen, NOW) == {"n0", "n2"}


def test_a_transition_time_moves_with_the_status_only() -> None:
    first = said(
        JobMemory(), (Word(type=JobCondition.RUNNING, holds=True, reason=Reason.TRAINING),), generation=1, now=NOW
    )
    later = NOW + timedelta(hours=1)
    words = (Word(type=JobCondition.RUNNING, holds=True, reason=Reason.PLANNER_UNKNOWN),)
    assert said(first, words, generation=2, now=later).conditions[0]["lastTransitionTime"] == "2030-01-01T12:00:00Z"
    assert state_of(first) is State.RUNNING


def test_what_stalls_a_job_is_told_once() -> None:
    problem = Problem(reason=Reason.SPEC_INVALID, message="spec.nnodes: is 0")
    first = decide(Seen(status=None, problem=problem), JobMemory())
    assert [effect.reason for effect in of(first, TellEvent)] == [Reason.SPEC_INVALID]
    memory = read_memory(first.status)
    assert of(decide(Seen(status=first.status, problem=problem), memory), TellEvent) == []
    assert stalled_event(memory, Reason.FORBIDDEN, "no") != ()


@pytest.mark.parametrize(
    ("gang", "running", "recovering"),
    [
        (None, (True, Reason.PLANNER_UNKNOWN), (False, Reason.NO_INCIDENT)),
        (GANG, (True, Reason.TRAINING), (False, Reason.NO_INCIDENT)),
        (replace(GANG, phase="forming"), (False, Reason.GANG_FORMING), (False, Reason.NO_INCIDENT)),
        (replace(GANG, phase="stopping", incident="x"), (False, Reason.NOT_TRAINING), (True, Reason.INCIDENT_OPEN)),
        (replace(GANG, phase="waiting"), (False, Reason.NOT_TRAINING), (True, Reason.WAITING_FOR_NODE)),
    ],
)
def test_the_planners_phase_in_words(gang: GangView | None, running: Any, recovering: Any) -> None:
    words = standing_words(wish(), UNDER_WAY, Seen(status=None, pods=(pod(0), pod(1)), gang=gang))
    table = {word.type: (word.holds, word.reason) for word in words}
    assert (table[JobCondition.RUNNING], table[JobCondition.RECOVERING]) == (running, recovering)


def test_pods_and_nodes_are_read_as_the_server_shows_them() -> None:
    state = {"terminated": {"exitCode": 137, "reason": "Error", "message": "a\nb\n\nc\nd"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "t", "state": state}]}
    body: dict[str, Any] = {"metadata": {"name": "llm-1", "uid": "p"}, "spec": {"nodeName": "n"}, "status": status}
    read = read_pod(body, "t")
    assert (read.end, read.exit_code, read.message) == (PodEnd.FAILED, 137, "b / c / d")
    evicted = {
        **status,
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
    }
    assert read_pod({**body, "status": evicted}, "t").end is PodEnd.DISRUPTED
    ready = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2030-01-01T11:59:00Z"}
    node = read_node("n", {"spec": {}, "status": {"conditions": [ready]}})
    assert node.is_away(NOW, 60)
    assert not node.is_away(NOW, 61)


def test_the_planners_record_in_the_operators_words() -> None:
    def member(name: str, standing: Standing) -> Member:
        return Member(
            node_id=name, instance_id="i", address="a", master_port=1, arrival=0, reported_at=NOW, standing=standing
        )

    why = Why(rule_id="r", sentence="no node came")
    gang = Gang(
        job_id="j",
        born_at=NOW,
        spec=JobSpec(nnodes=2, nproc_per_node=1),
        phase=Phase.ENDED,
        members={name: member(name, Standing(name)) for name in ("present", "lost", "left", "condemned")},
        restart_count=2,
        ending=Ending(
            outcome=JobOutcome.FAILED_NO_CAPACITY,
            reason=why,
            summary="",
            incident_id="",
            attempt=1,
            ended_at=NOW,
            told_at=NOW,
        ),
    )
    view = gang_view(gang)
    assert (view.lost, view.condemned) == ({"lost", "left"}, {"condemned"})
    assert (view.outcome, view.ended_reason, view.restarts) == ("failed_no_capacity", "no node came", 2)


def test_only_moments_that_are_still_to_come_are_waited_for() -> None:
    later = NOW + timedelta(seconds=1)
    assert earliest(None, later_than(NOW, NOW), later_than(NOW, later)) == later

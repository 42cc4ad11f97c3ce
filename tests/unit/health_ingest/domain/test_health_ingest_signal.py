"""The death of a rank as a signal: whose it is, what it says, and when it is the same one again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.agent import ExitStatus, OomKill, RestartAsked, WorkerError, WorkerExited
from fault_contracts.health import Component, ConditionCleared, ConditionRaised, SignalObserved, Tier
from fault_contracts.payload import Health
from fault_contracts.rank_faults import RanksFaulted, Suspect
from health_ingest.domain.condition import Condition, Step
from health_ingest.domain.observe import observe
from health_ingest.domain.pass_time import pass_time
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.signal import ending, from_observation, from_ranks_faulted, from_worker_exit

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def exited(**more: object) -> WorkerExited:
    fields: dict = {
        "node_id": "node-1",
        "instance_id": "life-1",
        "job_id": "job",
        "topology_version": 3,
        "ordinal": 1,
        "exit": ExitStatus(rank=3, local_rank=1, pid=77, signal=9, oom_kill=OomKill.NO),
        "error": WorkerError(type="ValueError", message="m", fingerprint="f", source="error_file"),
        "step": 40,
        "checkpoint_step": 30,
        "ran_s": 12.5,
        "stderr_tail": ("last words",),
        "observed_at": NOW,
    }
    return WorkerExited(**(fields | more))


def seen(message: WorkerExited, signal_id: str = "m-1") -> Step:
    signal = from_worker_exit(message, signal_id)
    return observe(Condition(entity=signal.entity), signal, now=NOW, policy=ConditionPolicy())


def test_a_death_is_a_failure_at_once_and_carries_all_that_is_known() -> None:
    (raised,) = seen(exited()).effects
    assert isinstance(raised, ConditionRaised)
    assert (raised.check, raised.tier, raised.component) == ("worker_exit", Tier.FAILURE, Component.PROCESS)
    assert (raised.job_id, raised.topology_version, raised.rank, raised.node_id) == ("job", 3, 3, "node-1")
    assert raised.worker is not None
    assert raised.worker.exit.signal == 9
    assert raised.worker.error is not None
    assert (raised.worker.ordinal, raised.worker.step, raised.worker.checkpoint_step) == (1, 40, 30)
    assert raised.worker.stderr_tail == ("last words",)
    assert raised.signal_ids == ("m-1",)


def test_the_same_death_has_the_same_id_whatever_message_it_comes_in() -> None:
    ids = {seen(exited(), signal_id).effects[0].condition_id for signal_id in ("m-1", "m-2")}
    assert len(ids) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"topology_version": 4},
        {"job_id": "job-2"},
        {"exit": ExitStatus(rank=2, local_rank=0, pid=77, signal=9)},
        {"instance_id": "life-2"},
    ],
)
def test_another_death_has_another_id(other: dict) -> None:
    assert seen(exited()).effects[0].condition_id != seen(exited(**other)).effects[0].condition_id


def hung(*ranks: int, **more: object) -> RanksFaulted:
    fields: dict = {
        "node_id": "node-1",
        "instance_id": "life-1",
        "job_id": "job",
        "topology_version": 3,
        "check": "hang",
        "rule_id": "hang_outside",
        "suspects": tuple(Suspect(rank=rank, local_rank=0, pid=70 + rank) for rank in ranks),
        "reason": "rank 3 idle outside of the collective",
        "evidence_path": "/logs/evidence_1",
        "step": 40,
        "checkpoint_step": 30,
        "ran_s": 12.5,
        "observed_at": NOW,
    }
    return RanksFaulted(**(fields | more))


def raised_by(message: RanksFaulted, signal_id: str = "m-1") -> ConditionRaised:
    signal = from_ranks_faulted(message, signal_id)
    (raised,) = observe(Condition(entity=signal.entity), signal, now=NOW, policy=ConditionPolicy()).effects
    assert isinstance(raised, ConditionRaised)
    return raised


@pytest.mark.parametrize("check", ["process_stopped", "process_blocked", "hang", "log_rule"])
def test_ranks_that_live_and_cannot_go_on_are_a_failure_at_once(check: str) -> None:
    raised = raised_by(hung(3, 2, check=check))
    assert (raised.check, raised.tier, raised.component) == (check, Tier.FAILURE, Component.PROCESS)
    assert (raised.job_id, raised.topology_version, raised.rank, raised.node_id) == ("job", 3, 3, "node-1")
    assert raised.reason == "rank 3 idle outside of the collective"
    assert raised.faulted is not None
    assert (raised.faulted.rule_id, raised.faulted.ranks, raised.faulted.pid) == ("hang_outside", (3, 2), 73)
    assert (raised.faulted.step, raised.faulted.checkpoint_step) == (40, 30)
    assert raised.faulted.evidence_path == "/logs/evidence_1"


def test_the_same_hang_has_one_id_and_another_generation_or_rank_another() -> None:
    assert raised_by(hung(3), "m-1").condition_id == raised_by(hung(3), "m-2").condition_id
    ids = {raised_by(hung(3)).condition_id, raised_by(hung(3, topology_version=4)).condition_id}
    ids |= {raised_by(hung(2)).condition_id, raised_by(hung()).condition_id}
    assert len(ids) == 4


def test_a_hang_that_names_nobody_carries_no_rank() -> None:
    raised = raised_by(hung())
    assert raised.rank is None
    assert raised.faulted is not None
    assert raised.faulted.ranks == ()


def test_the_longest_names_fit() -> None:
    longest = exited(job_id="j" * 256, instance_id="i" * 256, node_id="n" * 256)
    (raised,) = seen(longest).effects
    assert len(raised.component_id) <= 256
    assert len(from_worker_exit(longest, "m").entity.key) == 32


def test_a_dead_process_is_closed_after_a_while_and_then_dropped() -> None:
    policy = ConditionPolicy()
    condition = seen(exited()).condition
    assert condition is not None
    later = NOW + timedelta(seconds=policy.forget_after_s)
    closed = pass_time(condition, now=later, policy=policy)
    assert isinstance(closed.effects[0], ConditionCleared)
    assert closed.condition is not None
    assert pass_time(closed.condition, now=later, policy=policy).condition is None


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"signal": 9, "oom_kill": OomKill.YES}, "rank 3 was ended by signal 9 by the kernel's OOM killer"),
        ({"signal": 9, "oom_kill": OomKill.NO}, "rank 3 was ended by signal 9"),
        ({"exit_code": 3}, "rank 3 ended with exit code 3"),
        ({}, "rank 3 ended; its exit status was lost"),
    ],
)
def test_how_it_ended_is_said_in_words(status: dict, words: str) -> None:
    assert ending(ExitStatus(rank=3, local_rank=1, pid=7, **status)) == words


def test_an_observation_of_the_host_keeps_its_entity() -> None:
    observed = SignalObserved(
        node_id="node-1",
        component=Component.GPU,
        component_id="GPU-1",
        check="xid_63",
        health=Health.BAD,
        detail="row remap",
        job_id="job",
        rank=2,
        source="kmsg",
        observed_at=NOW,
    )
    signal = from_observation(observed, "m")
    other = from_observation(observed.model_copy(update={"component_id": "GPU-2"}), "m")
    assert signal.entity.key != other.entity.key
    assert (signal.health, signal.job_id, signal.rank, signal.worker) == (Health.BAD, "job", 2, None)


def test_a_wish_for_a_restart_is_carried_on_and_said_in_words() -> None:
    signal = from_worker_exit(exited(process_alive=True, restart_asked=RestartAsked.PROCESS), "m-1")
    assert signal.detail == "rank 3 asked for a restart of level process"
    assert signal.worker is not None
    assert signal.worker.restart_asked is RestartAsked.PROCESS

"""What became of the work, and how fast it was."""

from __future__ import annotations

from fault_attribution.derive.progress import progress
from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role


def found(
    kind: str, rank: int | None = 0, role: Role = Role.CONTEXT, number: int = 1, at_s: float | None = None,
    source: Source = Source.WORKER_STDOUT, node: str = "n1", stream: str = "", **captures: str,
) -> Finding:  # fmt: skip
    return Finding(
        finding_id=f"{kind}/{node}/{rank}/{number}/{at_s}", kind=kind, role=role, rank=rank, number=number, at_s=at_s,
        source=source, node=node, captures=captures, stream=stream or f"{source}/{rank}",
    )  # fmt: skip


def step(number: int, **rest: object) -> Finding:
    told = {"step": str(number), **rest}
    return found("step_done", role=Role.PROGRESS, number=number, **told)  # type: ignore[arg-type]


def trouble(number: int, **rest: object) -> Finding:
    return found("connect_retry", role=Role.BENIGN, number=number, **rest)  # type: ignore[arg-type]


def kinds(*findings: Finding) -> set[str]:
    return {each.kind for each in progress(list(findings))}


def test_work_after_the_trouble_in_one_stream_went_on() -> None:
    assert "work_went_on" in kinds(trouble(1), step(2))


def test_work_before_a_failure_did_not_go_on() -> None:
    failed = found("exit_failed")
    assert not {"work_went_on", "nothing_failed"} & kinds(step(1), found("cuda_oom", role=Role.CAUSE, number=2), failed)


def test_times_of_different_streams_count_only_from_a_minute_on() -> None:
    cause = found("xid_63", None, Role.CAUSE, at_s=0.0, source=Source.KMSG)
    hurt = found("peer_closed", 1, Role.VICTIM, at_s=0.0, stream="other")
    assert "work_went_on" in kinds(cause, hurt, step(1, at_s=300.0))
    assert "work_went_on" not in kinds(cause, hurt, step(1, at_s=30.0))


def test_a_device_event_beside_unharmed_workers_is_no_failure() -> None:
    cause = found("xid_63", None, Role.CAUSE, source=Source.KMSG)
    assert {"nothing_failed", "work_went_on"} <= kinds(cause, step(1))


def test_a_good_end_counts_whatever_came_before() -> None:
    ended = found("ended_well", None)
    assert {"nothing_failed", "work_went_on"} <= kinds(found("store_lost", 3, Role.VICTIM), ended)


def test_workers_without_any_step_never_trained() -> None:
    assert "never_trained" in kinds(found("nccl_timeout", role=Role.SYMPTOM))
    assert "never_trained" not in kinds(found("nccl_timeout", role=Role.SYMPTOM), step(1))


def test_size_and_age() -> None:
    large = kinds(found("world_size", world_size="512"), step(4_000))
    assert {"large_job", "hours_in"} <= large
    assert "small_job" in kinds(found("nccl_timeout", 1, Role.SYMPTOM))


def test_steps_that_become_slower_and_recover() -> None:
    slower = [step(1, step_time_s="1.0"), step(2, step_time_s="2.4")]
    assert "steps_slower" in kinds(*slower)
    assert "steps_recovered" not in kinds(*slower)
    assert "steps_recovered" in kinds(*slower, step(3, step_time_ms="1010"))
    assert "steps_slower" not in kinds(step(1, step_time_s="1.0"), step(2, step_time_s="1.2"))


def test_the_slow_node_is_named() -> None:
    rows = [step(1, node=node, step_time_s=took) for node, took in (("n1", "1.0"), ("n2", "1.6"), ("n3", "1.1"))]
    assert [each.node for each in progress(rows) if each.kind == "slow_on_one_node"] == ["n2"]


def test_steps_that_jump_up_and_down_are_of_several_jobs_and_tell_nothing() -> None:
    mixed = [step(number, step=str(value)) for number, value in enumerate((110, 320, 150, 240, 200), start=2)]
    assert "work_went_on" not in kinds(trouble(1), *mixed)
    once = [step(number, step=str(value)) for number, value in enumerate((110, 320, 240, 350, 400), start=2)]
    assert "work_went_on" in kinds(trouble(1), *once), "clocks that differ may turn two lines round"


def test_epochs_that_took_long_and_were_fast_again_are_counted() -> None:
    took = (("118.3", 1), ("402.7", 2), ("398.1", 3), ("119.9", 4))
    epochs = [found("epoch_done", role=Role.PROGRESS, number=number, epoch_time_s=value) for value, number in took]
    slower = [each for each in progress(epochs) if each.kind == "steps_slower"]
    assert [(each.captures["slow"], each.captures["slow_s"]) for each in slower] == [("2", "801")]
    assert "steps_recovered" in kinds(*epochs)
    assert "steps_slower" not in kinds(epochs[0], step(2, step_time_s="402.7")), "an epoch is not compared with a step"

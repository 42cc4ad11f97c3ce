"""Waiting for data, lists of visible GPUs, numbers that go wrong on one rank."""

from __future__ import annotations

import pytest

from fault_attribution.derive.user_job import job_facts, visible_list
from fault_attribution.finding import Finding, Role


def _finding(kind: str, rank: int | None = 0, number: int = 1, **captures: str) -> Finding:
    return Finding(
        finding_id=f"{kind}:{rank}:{number}", kind=kind, role=Role.PROGRESS, node="n1", rank=rank, number=number,
        captures=captures,
    )  # fmt: skip


def _kinds(*findings: Finding) -> list[str]:
    return [each.kind for each in job_facts(findings)]


def test_steps_that_wait_for_data() -> None:
    slow = [_finding("data_time", number=n, data_s="9.1", step_s="9.9") for n in range(3)]
    first_only = _finding("data_time", number=9, data_s="30.0", step_s="31.0")
    quick = [_finding("data_time", number=n, data_s="0.1", step_s="0.9") for n in range(3)]
    assert _kinds(*slow) == ["data_bound"]
    assert _kinds(first_only, *quick) == [], "the first batch fills the loader and says nothing"
    assert _kinds(_finding("data_share", share="85")) == ["data_bound"]
    assert _kinds(_finding("data_time", data_s="5.0", step_s="1.0")) == [], "data longer than its step is no share"


@pytest.mark.parametrize(
    ("raw", "kinds"),
    [
        ("0,1,2", []),
        ("0,1 python train.py", []),
        ("'0,1', 'PATH': '/bin'}", []),
        ("GPU-1b2c3d4e-0000-1111-2222-333344445555", []),
        ("${GPUS}", []),
        ("[0,1]", ["visible_devices_malformed"]),
        ("0, 1", ["visible_devices_malformed"]),
        ("cuda:0,cuda:1", ["visible_devices_malformed"]),
        ("MIG-aaaa-1,MIG-bbbb-2", ["visible_devices_many_mig"]),
    ],
)
def test_lists_of_visible_devices(raw: str, kinds: list[str]) -> None:
    assert _kinds(_finding("visible_devices", value=raw)) == kinds


def test_where_a_list_ends_is_not_guessed() -> None:
    assert visible_list("$GPUS,1") is None
    assert visible_list('"0,1" torchrun') == "0,1"


def test_nan_on_one_rank_of_several() -> None:
    nan = _finding("nan_stop", rank=3)
    assert _kinds(nan, _finding("step_done", rank=1)) == ["nan_on_one_rank"]
    assert _kinds(nan, _finding("nan_loss", rank=1)) == []
    assert _kinds(nan) == [], "nobody else is known"

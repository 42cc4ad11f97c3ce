"""Observations fit into their messages, whatever a driver or a kernel writes into them."""

from __future__ import annotations

from datetime import UTC, datetime

from fault_contracts.health import SAMPLES_MAX, Component, Sample, SignalObserved
from fault_contracts.payload import Health
from node_agent.domain.observation import Observation
from node_agent.domain.sweep_parts import as_sample, as_signal, parts

AT = datetime(2026, 1, 1, tzinfo=UTC)
HUGE = Observation(
    component=Component.GPU,
    component_id="g" * 1_000,
    check="c" * 1_000,
    health=Health.BAD,
    detail="d" * 100_000,
    values={"bad": float("nan"), "worse": float("inf"), **{f"v{number}": 1.0 for number in range(200)}},
    attributes={"": "no name", "job_id": "j" * 1_000, **{f"a{number}": "x" * 1_000 for number in range(200)}},
    count=7,
    observed_at=AT,
)


def test_a_huge_one_becomes_a_valid_sample() -> None:
    raw = as_sample(HUGE).model_dump_json()
    sample = Sample.model_validate_json(raw)
    assert (len(sample.values), len(sample.attributes), sample.count) == (16, 16, 7)
    assert sample.detail.endswith("...")


def test_a_huge_one_becomes_a_valid_signal() -> None:
    raw = as_signal(HUGE, node_id="n", boot_id="b", source="s").model_dump_json()
    signal = SignalObserved.model_validate_json(raw)
    assert (len(signal.values), len(signal.attributes), len(signal.job_id)) == (64, 32, 256)


def test_job_and_rank_come_from_the_attributes() -> None:
    told = {"job_id": "llm", "rank": "3"}
    one = Observation(component=Component.GPU, check="xid_31", health=Health.BAD, attributes=told, observed_at=AT)
    signal = as_signal(one, node_id="n", boot_id="b", source="s")
    assert (signal.job_id, signal.rank, signal.boot_id, signal.old) == ("llm", 3, "b", False)
    odd = Observation(
        component=Component.GPU, check="xid_31", health=Health.BAD, attributes={"rank": "x"}, observed_at=AT
    )
    assert as_signal(odd, node_id="n", boot_id="b", source="s").rank is None


def test_a_long_table_is_split_and_none_is_lost() -> None:
    many = [
        Observation(component=Component.GPU, component_id=str(number), check="x", health=Health.OK, observed_at=AT)
        for number in range(SAMPLES_MAX * 2 + 1)
    ]
    split = list(parts(many))
    assert [len(part) for part in split] == [SAMPLES_MAX, SAMPLES_MAX, 1]
    assert [sample.component_id for part in split for sample in part] == [one.component_id for one in many]
    assert list(parts([])) == []

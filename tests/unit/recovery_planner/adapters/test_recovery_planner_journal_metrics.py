"""What the journal says is counted under bounded labels, and once."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from prometheus_client import REGISTRY

from fault_contracts.agent import JobSpec
from fault_contracts.payload import Payload
from fault_contracts.recovery import IncidentClosed, JobEnded
from recovery_planner.adapters.journal_metrics import CAUSES_MAX, INCIDENTS, JournalCounters
from recovery_planner.application.journal_figures import REMEMBERED_MAX, CountOnce
from recovery_planner.domain.gang import Effect, Gang

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def empty_counters() -> Iterator[None]:
    INCIDENTS.clear()
    yield
    INCIDENTS.clear()


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def closed(cause: str = "gpu_lost", **account: object) -> IncidentClosed:
    known = {"ranks": 4, "ranks_after": 4, "down_s": 2.0, "down_gpu_s": 8.0, "levels": ["process", "job", "process"]}
    return IncidentClosed.model_validate(
        {
            "incident_id": "i",
            "job_id": "j",
            "outcome": "recovered",
            "topology_version": 2,
            "attempts": 1,
            "attribution": "hardware",
            "cause": cause,
            "phases": {"total_s": 2.0, "plan_s": 1.0},
            "account": {**known, **account},
            "reason": {"rule_id": "r", "sentence": "s"},
            "closed_at": NOON,
        }
    )


def test_an_incident_is_counted_with_its_gravest_level_its_time_and_its_cost() -> None:
    names = ("phalanx_recovery_seconds_count", "phalanx_steps_lost_total", "phalanx_nodes_replaced_total")
    before = {name: value(name, attribution="hardware") for name in names}
    down = value("phalanx_gpu_seconds_lost_total", attribution="hardware", kind="down")
    plan = value("phalanx_recovery_phase_seconds_count", phase="plan")
    stop = value("phalanx_recovery_phase_seconds_count", phase="stop")
    taken = [{"node_rank": 1, "node_id": "c"}]
    JournalCounters().note(closed(steps_redone=8, redone_gpu_s=16.0, nodes_taken=taken))
    labels = {"attribution": "hardware", "cause": "gpu_lost", "level": "job", "outcome": "recovered"}
    assert value("phalanx_incidents_total", **labels) == 1
    assert {name: value(name, attribution="hardware") - before[name] for name in names} == dict(
        zip(names, (1, 8, 1), strict=True)
    )
    assert value("phalanx_gpu_seconds_lost_total", attribution="hardware", kind="down") - down == 8.0
    assert value("phalanx_recovery_phase_seconds_count", phase="plan") - plan == 1
    assert value("phalanx_recovery_phase_seconds_count", phase="stop") == stop, "a phase that was not seen"


def test_what_has_no_price_is_counted_as_such() -> None:
    before = value("phalanx_incidents_unpriced_total")
    JournalCounters().note(closed())
    assert value("phalanx_incidents_unpriced_total") - before == 1


def test_causes_without_number_share_one_label() -> None:
    counters = JournalCounters()
    for number in range(CAUSES_MAX + 10):
        counters.note(closed(f"made_up_{number}"))
    counters.note(closed("made_up_0"))
    known = {"attribution": "hardware", "level": "job", "outcome": "recovered"}
    assert value("phalanx_incidents_total", cause="other", **known) == 10
    assert value("phalanx_incidents_total", cause="made_up_0", **known) == 2


def test_an_effect_that_is_published_again_is_counted_once() -> None:
    class Noted:
        def __init__(self) -> None:
            self.seen: list[Payload] = []

        def note(self, payload: Payload) -> None:
            self.seen.append(payload)

    noted = Noted()
    count = CountOnce(noted)
    gang = Gang(job_id="j", born_at=NOON, spec=JobSpec(nnodes=1, nproc_per_node=1))
    ended = JobEnded.model_validate(
        {
            "job_id": "j",
            "outcome": "succeeded",
            "topology_version": 1,
            "restarts": 0,
            "reason": {"rule_id": "r", "sentence": "s"},
            "ended_at": NOON,
        }
    )
    for seq in (1, 2, 1, 2):
        count.published(gang, Effect(seq=seq, payload=ended))
    assert len(noted.seen) == 2
    for seq in range(REMEMBERED_MAX + 2):
        count.published(gang, Effect(seq=10 + seq, payload=ended))
    assert len(noted.seen) == 2 + REMEMBERED_MAX + 2

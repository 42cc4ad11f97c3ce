"""What an observation is about."""

from datetime import UTC, datetime

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.observation import Observation

AT = datetime(2026, 3, 14, tzinfo=UTC)


def seen(component_id: str, check: str, detail: str = "") -> Observation:
    return Observation(
        component=Component.GPU,
        component_id=component_id,
        check=check,
        health=Health.BAD,
        detail=detail,
        observed_at=AT,
    )


def test_the_text_is_not_part_of_what_it_is_about() -> None:
    assert seen("GPU-1", "xid_79", "one").identity == seen("GPU-1", "xid_79", "two").identity
    assert seen("GPU-1", "xid_79").identity != seen("GPU-2", "xid_79").identity
    assert seen("GPU-1", "xid_79").identity != seen("GPU-1", "xid_94").identity

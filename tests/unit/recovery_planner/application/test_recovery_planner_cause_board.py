"""What one job suffers is known when the next one is judged; what is old is forgotten."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

from fault_contracts.faults import FaultClassified
from fault_contracts.health import ConditionRaised
from recovery_planner.application.cause_board import SIGHTINGS_MAX, CauseBoard
from service_kit.testing.virtual_clock import VirtualClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SAMPLES = Path(__file__).parents[3] / "contract" / "samples"


def fault(job: str, node: str, *, cause: str = "nic_fault") -> FaultClassified:
    raw = json.loads((SAMPLES / "evt.fault.classified" / "v1.json").read_text())["data"]
    return FaultClassified.model_validate(
        {
            **raw,
            "fault_id": f"fault of {job} on {node}",
            "job_id": job,
            "cause": cause,
            "attribution": "hardware",
            "action": "replace_node",
            "culprit": {"node_id": node},
        }
    )


def condition(node: str, check: str = "nic_link") -> ConditionRaised:
    return ConditionRaised.model_validate(
        {
            "condition_id": f"{check} of {node}",
            "node_id": node,
            "component": "nic",
            "check": check,
            "tier": "failure",
            "reason": "no link",
            "raised_at": NOON,
        }
    )


def test_the_second_job_is_known_to_share_its_cause_and_the_first_is_named() -> None:
    board = CauseBoard(VirtualClock())
    assert board.shared_by(fault("j1", "a")) is None
    link = board.shared_by(fault("j2", "b"))
    assert link is not None
    assert link.evidence_ids == ("fault of j1 on a", "fault of j2 on b")
    assert board.shared_by(fault("j3", "c", cause="gpu_memory")) is None


def test_conditions_of_nodes_that_broke_no_job_yet_count_as_nodes() -> None:
    board = CauseBoard(VirtualClock())
    for node in ("b", "b", "c"):
        board.raised(condition(node), ())
    assert len(list(board.sightings)) == 2
    link = board.shared_by(fault("j1", "a"))
    assert link is not None
    assert link.nodes == ("a", "b", "c")
    board.raised(condition("d", "xid_79"), ())
    assert len(list(board.sightings)) == 3, "what no two nodes can share is not kept"


def test_what_is_old_is_forgotten_and_a_storm_is_bounded() -> None:
    clock = VirtualClock()
    board = CauseBoard(clock)
    board.raised(condition("b"), ())
    asyncio.run(clock.advance(3_600))
    board.raised(condition("c"), ())
    assert [each.node_id for each in board.sightings] == ["c"]
    for number in range(SIGHTINGS_MAX + 5):
        board.raised(condition(f"n{number}"), ())
    assert len(list(board.sightings)) == SIGHTINGS_MAX

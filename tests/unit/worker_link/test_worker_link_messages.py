"""Messages survive the wire; a bad field is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from worker_link.messages import (
    CheckpointRequest,
    CheckpointSaved,
    Hello,
    Message,
    MessageError,
    RankLabels,
    RestartMode,
    RestartRequest,
    Step,
    StepPhase,
    UnknownMessage,
    Welcome,
    from_wire,
    to_wire,
)

EVERY: list[Message] = [
    Hello(rank=3, pid=9, token="t", topology_version=2),
    Step(step=5, phase=StepPhase.STARTED, at_monotonic_s=1.5),
    Step(step=5, at_monotonic_s=1.5, busy_s=0.25),
    CheckpointSaved(step=5, path="/x", kind="data"),
    RankLabels(labels={"dp": "0"}),
    RestartRequest(mode=RestartMode.JOB, reason="r"),
    Welcome(topology_version=2),
    CheckpointRequest(reason="pre-emption", deadline_s=30.0),
    CheckpointRequest(reason="pre-emption"),
]


@pytest.mark.parametrize("message", EVERY, ids=lambda m: type(m).__name__)
def test_wire_and_back(message: Message) -> None:
    assert from_wire(json.loads(json.dumps(to_wire(message)))) == message


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({}, "no type"),
        ({"type": 3}, "no type"),
        ({"type": "hello", "rank": -1, "pid": 1}, "hello.rank"),
        ({"type": "hello", "rank": True, "pid": 1}, "hello.rank"),
        ({"type": "hello", "rank": 0}, "hello.pid"),
        ({"type": "step", "step": 2**63, "at_monotonic_s": 1}, "step.step"),
        ({"type": "step", "step": 1, "at_monotonic_s": float("inf")}, "step.at_monotonic_s"),
        ({"type": "step", "step": 1, "at_monotonic_s": 1, "busy_s": -1}, "step.busy_s"),
        ({"type": "step", "step": 1, "phase": ["x"], "at_monotonic_s": 1}, "step.phase"),
        ({"type": "checkpoint_saved", "step": 1, "path": "x" * 4097}, "checkpoint_saved.path"),
        ({"type": "rank_labels", "labels": {"dp": 1}}, "rank_labels.labels"),
        ({"type": "rank_labels", "labels": {str(n): "" for n in range(33)}}, "rank_labels.labels"),
        ({"type": "restart_request", "mode": "universe", "reason": ""}, "restart_request.mode"),
    ],
)
def test_bad_field_is_named(data: dict[str, Any], named: str) -> None:
    with pytest.raises(MessageError, match=named):
        from_wire(data)


def test_newer_types_and_fields_are_tolerated() -> None:
    assert from_wire({"type": "barrier_reached", "x": 1}) == UnknownMessage(type="barrier_reached")
    assert from_wire({"type": "welcome", "topology_version": 1, "later": [1]}) == Welcome(topology_version=1)

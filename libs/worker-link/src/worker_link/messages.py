"""Messages between a worker and its agent, as values, and their reading from untrusted JSON.

Worker to agent: hello, step, checkpoint_saved, rank_labels, restart_request, phases (phase_messages.py). Agent to
worker: welcome, checkpoint_request. Both ways: those of a re-executable block (block_messages.py). Unknown types are
returned as `UnknownMessage`, so an older end can report and go on; unknown fields are ignored; a known type with a bad
field is refused with the field's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from worker_link.block_messages import (
    BLOCK_READERS,
    BLOCK_TYPE_NAMES,
    BlockMessage,
    BlockOrder,
)
from worker_link.message_fields import LABEL_LENGTH_MAX, PATH_LENGTH_MAX, Fields, MessageError
from worker_link.phase_messages import PHASE_READERS, PHASE_TYPE_NAMES, PhaseMessage


class StepPhase(StrEnum):
    """Which edge of a training step is reported."""

    STARTED = "started"
    FINISHED = "finished"


class RestartMode(StrEnum):
    """Level of restart a script may ask for, from the smallest to the largest."""

    IN_PROCESS = "in_process"
    PROCESS = "process"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """First message of a worker; it says who it is, the agent checks it against the socket's peer credentials."""

    rank: int
    pid: int
    token: str = ""
    topology_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Step heartbeat. `at_monotonic_s` is the worker's CLOCK_MONOTONIC, which all processes of a machine share."""

    step: int
    phase: StepPhase = StepPhase.FINISHED
    at_monotonic_s: float
    busy_s: float | None = None
    """The rank's own work in the finished step, without the wait for other ranks; None: not told."""
    topology_version: int = 0
    """The generation it was done in; 0: that of the hello. A restart in place changes it on a living connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    """This rank's part of the checkpoint of a step is durable. `kind` names which part (model, data, ...).

    `writers` is how many ranks write a part of it; None: whoever has written one in this job so far.
    """

    step: int
    path: str
    kind: str = "model"
    writers: int | None = None
    topology_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLabels:
    """Place of the rank in the parallel layout, for example {"dp": "0", "tp": "1"}."""

    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRequest:
    """The script asks for a restart."""

    mode: RestartMode
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The agent accepted the hello."""

    topology_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRequest:
    """The agent asks for a checkpoint, for example before a pre-emption. deadline_s counts from receipt.

    With `at_step` all ranks save after the same step, that one or the next at which they ask; None: at once.
    """

    reason: str
    deadline_s: float | None = None
    at_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownMessage:
    """A type this version does not know; to be reported, not to be acted on."""

    type: str


WorkerMessage = Hello | Step | CheckpointSaved | RankLabels | RestartRequest | BlockMessage | PhaseMessage
AgentMessage = Welcome | CheckpointRequest | BlockOrder
Message = WorkerMessage | AgentMessage

_TYPE_NAMES: dict[type[Message], str] = {
    Hello: "hello",
    Step: "step",
    CheckpointSaved: "checkpoint_saved",
    RankLabels: "rank_labels",
    RestartRequest: "restart_request",
    Welcome: "welcome",
    CheckpointRequest: "checkpoint_request",
    **BLOCK_TYPE_NAMES,
    **PHASE_TYPE_NAMES,
}

_WIRE = {kind: (name, tuple(entry.name for entry in fields(kind))) for kind, name in _TYPE_NAMES.items()}
"""Looked up once: dataclasses.asdict copies deeply and would be half the cost of a step report."""


def to_wire(message: Message) -> dict[str, Any]:
    """The JSON object of a message."""
    name, keys = _WIRE[type(message)]
    return {"type": name, **{key: getattr(message, key) for key in keys}}


def from_wire(data: Mapping[str, Any]) -> Message | UnknownMessage:
    """Read a message.

    Raises:
        MessageError: no type, or a known type with a missing or wrong field.
    """
    name = data.get("type")
    if not isinstance(name, str) or not name:
        raise MessageError("message has no type")
    reader = _READERS.get(name)
    if reader is None:
        return UnknownMessage(type=name[:LABEL_LENGTH_MAX])
    return reader(Fields(name, data))


_READERS: dict[str, Callable[[Fields], Message]] = {
    "hello": lambda f: Hello(
        rank=f.integer("rank"),
        pid=f.integer("pid"),
        token=f.text("token", ""),
        topology_version=f.integer("topology_version", 0),
    ),
    "step": lambda f: Step(
        step=f.integer("step"),
        phase=f.choice("phase", StepPhase, StepPhase.FINISHED),
        at_monotonic_s=f.number("at_monotonic_s"),
        busy_s=f.number("busy_s") if f.has("busy_s") else None,
        topology_version=f.integer("topology_version", 0),
    ),
    "checkpoint_saved": lambda f: CheckpointSaved(
        step=f.integer("step"),
        path=f.text("path", length_max=PATH_LENGTH_MAX),
        kind=f.text("kind", "model", length_max=64),
        writers=f.optional("writers"),
        topology_version=f.integer("topology_version", 0),
    ),
    "rank_labels": lambda f: RankLabels(labels=f.labels()),
    "restart_request": lambda f: RestartRequest(mode=f.choice("mode", RestartMode), reason=f.text("reason")),
    "welcome": lambda f: Welcome(topology_version=f.integer("topology_version")),
    "checkpoint_request": lambda f: CheckpointRequest(
        reason=f.text("reason"),
        deadline_s=f.number("deadline_s") if f.has("deadline_s") else None,
        at_step=f.optional("at_step"),
    ),
    **BLOCK_READERS,
    **PHASE_READERS,
}

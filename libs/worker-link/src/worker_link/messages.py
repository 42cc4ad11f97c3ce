"""Messages between a worker and its agent, as values, and their reading from untrusted JSON.

Worker to agent: hello, step, checkpoint_saved, rank_labels, restart_request. Agent to worker: welcome,
checkpoint_request. Unknown types are returned as `UnknownMessage`, so an older end can report and go on; unknown
fields are ignored; a known type with a bad field is refused with the field's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

PATH_LENGTH_MAX = 4096
"""Linux's PATH_MAX."""
TEXT_LENGTH_MAX = 1024
LABELS_MAX = 32
LABEL_LENGTH_MAX = 128
INTEGER_MAX = 2**63 - 1
"""Steps and ranks fit a signed 64-bit integer, as every store downstream expects."""


class MessageError(ValueError):
    """A message of a known type breaks the contract; the text names type and field."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    """This rank's part of the checkpoint of a step is durable. `kind` names which part (model, data, ...).

    `writers` is how many ranks write a part of it; None: whoever has written one in this job so far.
    """

    step: int
    path: str
    kind: str = "model"
    writers: int | None = None


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
    """The agent asks for a checkpoint soon, for example before a pre-emption. deadline_s counts from receipt."""

    reason: str
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownMessage:
    """A type this version does not know; to be reported, not to be acted on."""

    type: str


WorkerMessage = Hello | Step | CheckpointSaved | RankLabels | RestartRequest
AgentMessage = Welcome | CheckpointRequest
Message = WorkerMessage | AgentMessage

_TYPE_NAMES: dict[type[Message], str] = {
    Hello: "hello",
    Step: "step",
    CheckpointSaved: "checkpoint_saved",
    RankLabels: "rank_labels",
    RestartRequest: "restart_request",
    Welcome: "welcome",
    CheckpointRequest: "checkpoint_request",
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
    return reader(_Fields(name, data))


_E = TypeVar("_E", bound=StrEnum)


class _Fields:
    """Typed access to the fields of one message; every refusal names type and field."""

    def __init__(self, name: str, data: Mapping[str, Any]) -> None:
        self._name = name
        self._data = data

    def _refuse(self, key: str, wanted: str) -> MessageError:
        return MessageError(f"{self._name}.{key} must be {wanted}, got {str(self._data.get(key))[:80]!r}")

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._data.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= INTEGER_MAX:
            raise self._refuse(key, "a whole number from 0 to 2^63-1")
        return value

    def number(self, key: str) -> float:
        value = self._data.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= INTEGER_MAX:
            raise self._refuse(key, "a number of seconds, 0 or more")
        return float(value)

    def text(self, key: str, default: str | None = None, *, length_max: int = TEXT_LENGTH_MAX) -> str:
        value = self._data.get(key, default)
        if not isinstance(value, str) or len(value) > length_max:
            raise self._refuse(key, f"a text of at most {length_max} characters")
        return value

    def choice(self, key: str, kind: type[_E], default: _E | None = None) -> _E:
        value = self._data.get(key, default)
        try:
            return kind(value)
        except ValueError:
            raise self._refuse(key, f"one of {', '.join(kind)}") from None

    def labels(self) -> dict[str, str]:
        value = self._data.get("labels")
        if not isinstance(value, dict) or len(value) > LABELS_MAX:
            raise self._refuse("labels", f"an object with at most {LABELS_MAX} entries")
        for key, label in value.items():
            if not isinstance(label, str) or not key or max(len(key), len(label)) > LABEL_LENGTH_MAX:
                raise self._refuse("labels", f"texts of 1 to {LABEL_LENGTH_MAX} characters")
        return dict(value)

    def has(self, key: str) -> bool:
        return self._data.get(key) is not None


_READERS: dict[str, Callable[[_Fields], Message]] = {
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
    ),
    "checkpoint_saved": lambda f: CheckpointSaved(
        step=f.integer("step"),
        path=f.text("path", length_max=PATH_LENGTH_MAX),
        kind=f.text("kind", "model", length_max=64),
        writers=f.integer("writers") if f.has("writers") else None,
    ),
    "rank_labels": lambda f: RankLabels(labels=f.labels()),
    "restart_request": lambda f: RestartRequest(mode=f.choice("mode", RestartMode), reason=f.text("reason")),
    "welcome": lambda f: Welcome(topology_version=f.integer("topology_version")),
    "checkpoint_request": lambda f: CheckpointRequest(
        reason=f.text("reason"), deadline_s=f.number("deadline_s") if f.has("deadline_s") else None
    ),
}

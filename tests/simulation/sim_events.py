"""What checkers are told while a scenario runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fault_contracts.commands import Command
from fault_contracts.envelope import Envelope
from fault_contracts.remediation import BreakerState
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.node_life import NodeLife


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksStarted:
    """A node starts its ranks of a generation."""

    job: str
    node_id: str
    instance_id: str
    version: int
    ranks: tuple[int, ...]
    step: int
    """The checkpoint's; 0 is from scratch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obeyed:
    """An agent begins to carry a command out. `again`: a stop of an earlier life, which is owed its answer."""

    node_id: str
    command: Command
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A rank has a checkpoint on disk and will say so."""

    job: str
    version: int
    rank: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GangWritten:
    """A gang record was written; `before` is what stood there."""

    before: Gang | None
    gang: Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStored:
    """A stream keeps a message that it did not have."""

    stream: str
    sequence: int
    envelope: Envelope[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultDone:
    """A line of the scenario was carried out; what it hit stands in `hit`, empty when there was nothing to hit."""

    verb: str
    hit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeWritten:
    """The record of a node's life was written."""

    life: NodeLife


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerWritten:
    """The breaker's record was written; `before` is what stood there."""

    before: BreakerState
    state: BreakerState


@dataclass(frozen=True, slots=True, kw_only=True)
class HostActs:
    """A machine is reset, booted, validated or given back. `harm`: what runs there all the same."""

    node_id: str
    action: str
    harm: str


SimEvent = (
    RanksStarted | Obeyed | Saved | GangWritten | MessageStored | FaultDone | LifeWritten | BreakerWritten | HostActs
)

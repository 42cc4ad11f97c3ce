"""What a validation asks of the members of a gang, of the node, and of the bus. One process a device is a member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from node_agent.domain.validation_result import CheckResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Who came to a validation.

    Attributes:
        device: cpu, cuda:0, ...
        device_id: gpu_uuid where there is one.
    """

    rank: int
    node_rank: int
    node_id: str
    device: str
    device_id: str = ""
    device_name: str = ""

    @property
    def named(self) -> str:
        """For people: what to pull out of which machine."""
        return f"rank {self.rank} ({self.node_id} {self.device}{f' {self.device_id}' if self.device_id else ''})"


class AnswerEnd(StrEnum):
    """How an order to a member ended. Closed."""

    OK = "ok"
    CORRUPT = "corrupt"
    STALLED = "stalled"
    """It could not finish in time, or an operation failed."""
    DIED = "died"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One part of a member's answer to a device order. `end`: ok, corrupt, or unknown."""

    check: str
    end: str
    sentence: str
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back."""

    end: AnswerEnd
    detail: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOrder:
    """Compute and remember. `memory_bytes` 0: the member chooses."""

    matmul_size: int
    duration_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOrder:
    """A test over a group: a sum over all of `ranks`, or a ping-pong of two.

    Attributes:
        ranks: the members, in the order of their places in the group; the first one's store is where they meet.
        key: names this test, so that nothing of another one is met.
    """

    ranks: tuple[int, ...]
    key: str
    is_pair: bool
    size_bytes: int
    repeats: int


class Gang(Protocol):
    """The members, however they are reached."""

    async def gather(self, world_size: int, *, limit_s: float) -> Mapping[int, Member]:
        """Who is there when all are, or when the time is over."""
        ...

    async def ask(self, rank: int, order: DeviceOrder | GroupOrder, *, limit_s: float) -> Answer:
        """One order. The member itself gives up after limit_s; one that then says nothing is silent.

        A member that died or fell silent is never asked again: the answer is the same, at once.
        """
        ...


class LocalCheck(Protocol):
    """A check that needs no member: devices, ledger, conditions. Bounds its own time and never raises."""

    async def run(self) -> Sequence[CheckResult]:
        """What it found."""
        ...

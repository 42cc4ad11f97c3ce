"""What is measured: contestants, faults, the pairs of the default run, and why a pair is not measured. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What is done to rank 3, or to its node. In this order within a job: the last two may leave it broken."""

    KILL = "kill"
    """kill -9 of the rank."""
    RAISE = "raise"
    """An exception in the rank, in the middle of a step."""
    NODE = "node"
    """kill -9 of the rank's agent, with its ranks where they would outlive it."""
    STOP = "stop"
    """SIGSTOP of the rank: its process lives and does nothing."""


class Name(StrEnum):
    """A contestant."""

    TORCHRUN = "torchrun"
    FT_LAUNCHER = "ft_launcher"
    PHALANX = "phalanx"
    IN_PROCESS = "in-process"
    """Phalanx with the training function as a re-executable block."""
    FLOOR = "floor"
    """No control plane at all: a prepared parent forks four ranks. Nothing is broken, so it has one row."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cell:
    """One pair."""

    name: Name
    fault: Fault


GROUP_TIMEOUT_S = 5.0
"""Time-out of the process group where a contestant sees a hang by nothing else; gloo's default is 30 minutes."""
_PHALANX = (Name.PHALANX, Name.IN_PROCESS)
_DEFAULT = {
    *(Cell(name=name, fault=fault) for name in _PHALANX for fault in Fault),
    Cell(name=Name.TORCHRUN, fault=Fault.KILL),
    Cell(name=Name.TORCHRUN, fault=Fault.RAISE),
    Cell(name=Name.FLOOR, fault=Fault.KILL),
}
_LEFT_OUT = {
    Fault.STOP: "only gloo's time-out of 30 min ends it; --all measures it with one of 5 s",
    Fault.NODE: "the agents' keep-alive ends it, after 15 s by default; --all measures it",
}


def chosen(names: Collection[Name], faults: Collection[Fault], *, everything: bool) -> tuple[Cell, ...]:
    """The cells of a run, in the order in which they are measured.

    Args:
        names: contestants.
        faults: faults; the floor is there for a kill only.
        everything: also those that take long, or that need an installation.
    """
    cells = [Cell(name=name, fault=fault) for name in Name for fault in Fault if name in names and fault in faults]
    return tuple(cell for cell in cells if _exists(cell) and (everything or cell in _DEFAULT))


def left_out(cell: Cell) -> str:
    """Why the default run does not measure a cell; empty for one that it does measure, or that does not exist."""
    if cell in _DEFAULT or not _exists(cell):
        return ""
    if cell.name is Name.FT_LAUNCHER:
        return "needs its own installation; --all makes it"
    return _LEFT_OUT[cell.fault]


def unlike_default(cell: Cell) -> str:
    """The setting without which there would be no figure; said beside it. Empty: the contestant's defaults."""
    if cell.fault is not Fault.STOP:
        return ""
    match cell.name:
        case Name.TORCHRUN:
            return f"with a time-out of the process group of {GROUP_TIMEOUT_S:g} s; its default is 30 min"
        case Name.FT_LAUNCHER:
            return "with a heartbeat time-out of 5 s; by default it has none"
        case Name.PHALANX | Name.IN_PROCESS | Name.FLOOR:
            return ""


def group_timeout_s(cell: Cell) -> float | None:
    """A time-out of the process group that is not the default."""
    return GROUP_TIMEOUT_S if cell.fault is Fault.STOP and cell.name is Name.TORCHRUN else None


def _exists(cell: Cell) -> bool:
    return cell.name is not Name.FLOOR or cell.fault is Fault.KILL

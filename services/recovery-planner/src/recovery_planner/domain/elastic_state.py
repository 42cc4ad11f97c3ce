"""What a gang remembers of its changes of size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

SIZES_MAX = 64
"""Changes of size that are remembered; a report of a generation before them is of unknown size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSince:
    """From this topology_version on, the gang has so many nodes."""

    topology_version: int
    nnodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrow:
    """A gang that is to grow waits for its next checkpoint.

    Attributes:
        above_step: a later step than this one is waited for; it was the newest when the wait began.
        until: then it is given up for this time.
        sentence: why, for a person.
    """

    above_step: int
    until: datetime
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticState:
    """Empty while the gang has the size that was asked for.

    Attributes:
        sizes: when the size changed, and to what.
        replica_nodes: nodes of one replica, as labels told when the gang shrank; 0: as the policy says.
        shrink_at: the gang has a hole, and shrinks then.
        regrow_at: no planned regrow before; None: nothing forbids one.
        regrow: a planned regrow that waits for a checkpoint.
    """

    sizes: tuple[SizeSince, ...] = ()
    replica_nodes: int = 0
    shrink_at: datetime | None = None
    regrow_at: datetime | None = None
    regrow: Regrow | None = None

    @property
    def look_at(self) -> datetime | None:
        """When a gang that runs has to be looked at for this."""
        until = None if self.regrow is None else self.regrow.until
        return min((at for at in (self.regrow_at, until) if at is not None), default=None)


def nnodes_at(state: ElasticState, topology_version: int, *, first: int) -> int | None:
    """Size of a generation; `first` is what the job was started with. None: too long ago."""
    sizes = state.sizes
    known = [each.nnodes for each in sizes if each.topology_version <= topology_version]
    if known:
        return known[-1]
    return None if len(sizes) >= SIZES_MAX else first


def with_size(state: ElasticState, topology_version: int, nnodes: int, *, before: int) -> ElasticState:
    """The state once a generation of this size is begun."""
    if nnodes == before:
        return state
    since = SizeSince(topology_version=topology_version, nnodes=nnodes)
    return replace(state, sizes=(*state.sizes, since)[-SIZES_MAX:])

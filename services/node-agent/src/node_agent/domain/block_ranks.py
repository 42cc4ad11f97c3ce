"""Where each local rank stands with its re-executable block, and which messages about it still count.

A rank is outside its block (not there yet, or through with it), inside, faulted (on its way to the barrier), at the
barrier, or unfit (there, but to be replaced). Every message names the version it speaks of; one of another version
changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from training_topology.identity import LocalRank


class BlockPlace(StrEnum):
    """Place of one rank."""

    OUTSIDE = "outside"
    INSIDE = "inside"
    FAULTED = "faulted"
    AT_BARRIER = "at_barrier"
    UNFIT = "unfit"


_P = BlockPlace

MOVES: Mapping[BlockPlace, frozenset[BlockPlace]] = {
    _P.OUTSIDE: frozenset({_P.INSIDE}),
    _P.INSIDE: frozenset({_P.INSIDE, _P.FAULTED, _P.AT_BARRIER, _P.UNFIT, _P.OUTSIDE}),
    _P.FAULTED: frozenset({_P.AT_BARRIER, _P.UNFIT, _P.OUTSIDE}),
    _P.AT_BARRIER: frozenset({_P.OUTSIDE, _P.UNFIT}),
    _P.UNFIT: frozenset({_P.OUTSIDE}),
}
"""What a rank may do within one version. The way from the barrier to the inside is a new version, see `begun`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRanks:
    """All local ranks of one topology_version.

    Attributes:
        places: ranks that are not named are outside.
        reasons: why a rank is unfit.
    """

    topology_version: int
    nproc: int
    places: Mapping[LocalRank, BlockPlace] = field(default_factory=dict)
    reasons: Mapping[LocalRank, str] = field(default_factory=dict)

    def place_of(self, local_rank: LocalRank) -> BlockPlace:
        """Where a rank stands."""
        return self.places.get(local_rank, BlockPlace.OUTSIDE)

    def at(self, *places: BlockPlace) -> frozenset[LocalRank]:
        """The ranks that stand at one of these."""
        return frozenset(LocalRank(n) for n in range(self.nproc) if self.place_of(LocalRank(n)) in places)

    @property
    def all_inside(self) -> bool:
        """Every rank of the node runs its block: the node can restart in place."""
        return len(self.at(BlockPlace.INSIDE)) == self.nproc

    def moved(
        self, local_rank: LocalRank, place: BlockPlace, *, topology_version: int, reason: str = ""
    ) -> BlockRanks | None:
        """The record after a rank's word; None when the word is refused (another version, or no such move)."""
        if topology_version != self.topology_version or not 0 <= local_rank < self.nproc:
            return None
        if place not in MOVES[self.place_of(local_rank)]:
            return None
        reasons = {**self.reasons, local_rank: reason} if place is BlockPlace.UNFIT else self.reasons
        return replace(self, places={**self.places, local_rank: place}, reasons=reasons)

    def gone(self, local_rank: LocalRank) -> BlockRanks:
        """The record without a rank whose process or connection ended."""
        return replace(self, places={**self.places, local_rank: BlockPlace.OUTSIDE})


def begun(topology_version: int, nproc: int, *, survivors: Iterable[LocalRank] = ()) -> BlockRanks:
    """A new version: survivors were let in, all others still have to announce their block."""
    places = dict.fromkeys(survivors, BlockPlace.INSIDE)
    return BlockRanks(topology_version=topology_version, nproc=nproc, places=places)

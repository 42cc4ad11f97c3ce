"""Who has to confirm a checkpoint of a generation, when generations of one job had different sizes.

Ranks that ever confirmed in a generation of the same size are known writers. Of a size that is new, the first
checkpoint would be whole with its first confirmation; what other sizes did says how many have to come at least.
"""

from __future__ import annotations

from collections.abc import Mapping

from recovery_planner.domain.rank_set import RankSet, add, count

SIZES_MAX = 32
"""World sizes whose writers are remembered for one kind; a gang shrinks by whole replicas and comes back."""


def note_writer(by_world: Mapping[int, RankSet], world_size: int | None, rank: int) -> dict[int, RankSet]:
    """The writers with one more. An unknown size teaches nothing."""
    if world_size is None:
        return dict(by_world)
    noted = {**by_world, world_size: add(by_world.get(world_size, ()), rank)}
    return {size: noted[size] for size in list(noted)[-SIZES_MAX:]}


def required_of(by_world: Mapping[int, RankSet], ranks_ever: RankSet, world_size: int | None) -> RankSet:
    """Ranks that have to confirm in a generation of this size."""
    if world_size is None or len(by_world) < 2:
        return ranks_ever
    return by_world.get(world_size, ())


def least_writers(by_world: Mapping[int, RankSet], world_size: int | None) -> tuple[int, bool]:
    """How many have to confirm at least, and whether nothing else will do.

    Where all ranks of another size wrote, all of this one will. Where some did, their number is the best guess: too
    high when one of each node writes, so a later checkpoint of the generation settles it as well.
    """
    if world_size is None:
        return 0, False
    # A world of one rank says nothing: its writer is the first rank, and all ranks.
    others = {size: count(ranks) for size, ranks in by_world.items() if size != world_size and size > 1}
    if any(writers == size for size, writers in others.items()):
        return world_size, True
    return min(max(others.values(), default=0), world_size), False

"""Which nodes of a gang work together, from the labels of its ranks: tensor groups, pipeline neighbours, replicas.

A tensor group: ranks that agree in every parallel label but `tp`. Pipeline neighbours: ranks that agree in all but
`pp`, one stage apart. Replicas: ranks that agree in all but `dp`. Everything is told by node_rank, for nodes are
placed, not ranks; what lies on one node needs no care.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from training_topology.rank_labels import unpack_columns

TENSOR, PIPELINE, DATA = "tp", "pp", "dp"
PARALLEL = (DATA, "cp", PIPELINE, TENSOR, "ep")
"""Labels that say where a rank stands in the layout. Others are free text and tell nothing about who talks to whom."""
LAYOUTS_KEPT = 8
"""Reading 100,000 ranks takes a tenth of a second, and the labels of a job change only when it starts."""

_Columns = Mapping[str, Sequence[str | None]]
Group = tuple[int, ...]
"""Rising node_ranks, two or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Groups of nodes, and in which of them a node is."""

    groups: tuple[Group, ...] = ()
    by_node: Mapping[int, tuple[int, ...]]
    """node_rank → indices into `groups`."""

    def of(self, node_rank: int) -> tuple[int, ...]:
        """Indices of the groups that a node is in."""
        return self.by_node.get(node_rank, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Who works with whom.

    Attributes:
        tensor: nodes that share tensor groups.
        neighbours: node_rank → nodes that hold the stage before or behind one of its own.
        replicas: nodes that hold the same part of the model.
    """

    tensor: Grouping
    neighbours: Mapping[int, tuple[int, ...]]
    replicas: Grouping

    @property
    def is_known(self) -> bool:
        """The ranks said something about their places."""
        return bool(self.tensor.groups or self.neighbours or self.replicas.groups)


NO_GROUPS = Grouping(by_node={})
UNKNOWN_LAYOUT = Layout(tensor=NO_GROUPS, neighbours={}, replicas=NO_GROUPS)


@lru_cache(maxsize=LAYOUTS_KEPT)
def layout_of(packed: str, *, nproc: int) -> Layout:
    """The layout of packed labels (training_topology.rank_labels), with `nproc` ranks on each node.

    Raises:
        ValueError: the labels are damaged.
    """
    columns = unpack_columns(packed)
    names = [name for name in PARALLEL if name in columns]
    return Layout(
        tensor=_grouping(columns, names, TENSOR, nproc),
        neighbours=_neighbours(columns, names, nproc),
        replicas=_grouping(columns, names, DATA, nproc),
    )


def _grouping(columns: _Columns, names: Sequence[str], varying: str, nproc: int) -> Grouping:
    """Nodes whose ranks agree in all `names` but the varying one."""
    if varying not in names:
        return NO_GROUPS
    found: defaultdict[int, list[int]] = defaultdict(list)
    for rank, (value, key) in enumerate(zip(columns[varying], _keys(columns, names, varying), strict=True)):
        if value is not None:
            found[key].append(rank)
    # Ranks rise, so a node's follow one another; the eight ranks of a node give the same groups eight times.
    nodes = {tuple(dict.fromkeys([rank // nproc for rank in ranks])) for ranks in found.values()}
    groups = tuple(sorted(group for group in nodes if len(group) > 1))
    by_node: defaultdict[int, list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        for node_rank in group:
            by_node[node_rank].append(number)
    return Grouping(groups=groups, by_node={node_rank: tuple(numbers) for node_rank, numbers in by_node.items()})


def _neighbours(columns: _Columns, names: Sequence[str], nproc: int) -> dict[int, tuple[int, ...]]:
    """One neighbour a rank and direction, so that labels that mean something else cannot make it a square."""
    if PIPELINE not in names:
        return {}
    keys = _keys(columns, names, PIPELINE)
    nodes_at: defaultdict[int, dict[int, int]] = defaultdict(dict)
    stages = {value: int(value) for value in set(columns[PIPELINE]) if value is not None and value.isdecimal()}
    for rank, (value, key) in enumerate(zip(columns[PIPELINE], keys, strict=True)):
        if value in stages:
            nodes_at[stages[value]][key] = rank // nproc
    near: defaultdict[int, set[int]] = defaultdict(set)
    for stage, nodes in nodes_at.items():
        behind = nodes_at.get(stage + 1, {})
        for one, other in {(node_rank, behind[key]) for key, node_rank in nodes.items() if key in behind}:
            if one != other:
                near[one].add(other)
                near[other].add(one)
    return {node_rank: tuple(sorted(others)) for node_rank, others in near.items()}


def _keys(columns: _Columns, names: Sequence[str], varying: str) -> list[int]:
    """Of each rank: one number for its values of all names but one."""
    keys = [0] * len(columns[varying])
    for name in names:
        if name != varying:
            number = {value: place for place, value in enumerate(dict.fromkeys(columns[name]))}
            size = len(number)
            keys = [key * size + number[value] for key, value in zip(keys, columns[name], strict=True)]
    return keys

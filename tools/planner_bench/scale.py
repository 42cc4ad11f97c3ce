"""Rank maps and records at the size of 100,000 ranks on 12,500 nodes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from planner_bench.fleet import NPROC, stand
from recovery_planner.domain.member import Member
from recovery_planner.domain.rank_assignment import first_table, next_table
from training_topology.topology import RankTable, changed_rows

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMap:
    """Seconds of CPU, medians.

    Attributes:
        first_s: the first table, with nodes in order of where they stand, and its index of ranks.
        next_s: the table after one node was replaced, and what changed.
    """

    nnodes: int
    first_s: float
    next_s: float


def rank_map(nnodes: int, rounds: int) -> RankMap:
    """Lay the ranks out, and lay them out again."""
    members = {name: _member(name, number) for number, name in enumerate(_names(nnodes + 1))}
    spare = next(reversed(members))
    gang = [member for name, member in members.items() if name != spare]
    firsts, nexts = [], []
    for _ in range(rounds):
        took_s, table = _timed(lambda: _first(gang, nnodes))
        firsts.append(took_s)
        took_s, _changed = _timed(lambda table=table: _next(table, members, spare))
        nexts.append(took_s)
    return RankMap(nnodes=nnodes, first_s=statistics.median(firsts), next_s=statistics.median(nexts))


def _first(gang: list[Member], nnodes: int) -> RankTable:
    table = first_table(gang, nnodes=nnodes, nproc=NPROC, topology_version=1)
    assert table is not None
    assert table.world_size == nnodes * NPROC
    return table


def _next(table: RankTable, members: dict[str, Member], spare: str) -> int:
    after = next_table(table, members, {table.nnodes // 2: spare})
    return len(changed_rows(table, after))


def _timed(work: Callable[[], _T]) -> tuple[float, _T]:
    began_s = time.process_time()
    result = work()
    return time.process_time() - began_s, result


def _names(count: int) -> list[str]:
    return [f"node-{number:05d}" for number in range(count)]


def _member(name: str, number: int) -> Member:
    now = datetime.now(UTC)
    return Member(
        node_id=name, instance_id=name, address=name, master_port=29_500, arrival=number, reported_at=now,
        labels=stand(number),
    )  # fmt: skip

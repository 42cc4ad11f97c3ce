"""What tables and records cost at the size of 100,000 ranks on 12,500 nodes."""

from __future__ import annotations

import statistics
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from fault_contracts.agent import JobSpec
from planner_bench.fleet import NPROC, instance, stand
from recovery_planner.adapters.gang_codec import encode_gang
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.member import Member
from recovery_planner.domain.rank_assignment import first_table, next_table
from service_kit.large_values import LEVEL
from training_topology.layout import layout_of
from training_topology.packed_rows import pack_rows
from training_topology.rank_labels import pack_labels
from training_topology.topology import RankTable, changed_rows

REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Times are CPU seconds, medians.

    Attributes:
        first_s: the first table, with nodes in order of where they stand.
        next_s: the table after one node was replaced, and what changed.
        layout_s: the groups of ranks read from their labels; once for each set of labels.
        encode_s, deflate_s: of the gang's record.
        rows_bytes: all rows, as they travel in a start.
    """

    ranks: int
    first_s: float
    next_s: float
    layout_s: float
    encode_s: float
    deflate_s: float
    record_bytes: int
    deflated_bytes: int
    rows_bytes: int


def measure(nnodes: int) -> Scale:
    """Lay ranks out with labels, replace a node, write the record."""
    members = {name: _member(name, number) for number, name in enumerate(f"node-{n:05d}" for n in range(nnodes + 8))}
    table = _first(members, nnodes)
    spare = next(name for name in members if name not in table.node_ids)
    ranks = range(nnodes * NPROC)
    labels = pack_labels({r: {"tp": str(r % 8), "dp": str(r // 8 % 125), "pp": str(r // 1_000)} for r in ranks})
    gang = Gang(
        job_id="bench",
        born_at=datetime.now(UTC),
        spec=JobSpec(nnodes=nnodes, nproc_per_node=NPROC),
        phase=Phase.RUNNING,
        table=table,
        members=members,
        started=frozenset(table.node_ids),
        labels=labels,
    )
    raw = encode_gang(gang)

    def lay_out() -> None:
        layout_of.cache_clear()
        layout_of(labels, nproc=NPROC)

    return Scale(
        ranks=table.world_size,
        first_s=_median_s(lambda: _first(members, nnodes)),
        next_s=_median_s(lambda: changed_rows(table, next_table(table, members, {nnodes // 2: spare}))),
        layout_s=_median_s(lay_out),
        encode_s=_median_s(lambda: encode_gang(gang)),
        deflate_s=_median_s(lambda: zlib.compress(raw, LEVEL)),
        record_bytes=len(raw),
        deflated_bytes=len(zlib.compress(raw, LEVEL)),
        rows_bytes=len(pack_rows(table.rows)),
    )


def _first(members: dict[str, Member], nnodes: int) -> RankTable:
    table = first_table(members.values(), nnodes=nnodes, nproc=NPROC, topology_version=1)
    assert table is not None, "enough agents are there"
    return table


def _median_s(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS):
        began_s = time.process_time()
        work()
        taken.append(time.process_time() - began_s)
    return statistics.median(taken)


def _member(name: str, number: int) -> Member:
    return Member(
        node_id=name,
        instance_id=instance(name),
        address=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        master_port=20_000 + number % 40_000,
        arrival=number,
        reported_at=datetime.now(UTC),
        labels=stand(number),
    )

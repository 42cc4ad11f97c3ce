"""Measures the planner: from a fault to the published start, the rank map of 100,000 ranks, the size of the record.

Prints a table and writes the same figures to .bench/planner.json. The planner and its agents share this process and its
core; the load of the machine stands beside the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import structlog
from planner_bench.decision import Decisions, measure, memory_world, nats_world
from planner_bench.fleet import NPROC, instance, stand

from fault_contracts.agent import JobSpec
from recovery_planner.adapters.gang_codec import encode_gang
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.member import Member
from recovery_planner.domain.rank_assignment import first_table, next_table
from service_kit.large_values import HEAD_BYTES_MAX, LEVEL
from training_topology.layout import layout_of
from training_topology.packed_rows import pack_rows
from training_topology.rank_labels import pack_labels

ROOT = Path(__file__).resolve().parent.parent
LARGE = 12_500
REPEATS = 5


def best_ms(work: Callable[[], object]) -> float:
    """The quickest of a few, for a busy machine only ever adds."""
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return 1_000 * min(taken)


def members_of(count: int) -> dict[str, Member]:
    """Agents with labels, as they come in live."""
    now = datetime.now(UTC)
    return {
        f"node-{number:05d}": Member(
            node_id=f"node-{number:05d}",
            instance_id=instance(f"node-{number:05d}"),
            address=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            master_port=20_000 + number % 40_000,
            arrival=number,
            reported_at=now,
            labels=stand(number),
        )
        for number in range(count)
    }


def tables(nnodes: int) -> dict[str, float]:
    """Rank map and record of a gang that runs."""
    members = members_of(nnodes + 8)
    first = first_table(members.values(), nnodes=nnodes, nproc=NPROC, topology_version=1)
    assert first is not None, "enough agents are there"
    seated = {row.node_id for row in first.rows}
    spare = next(node for node in members if node not in seated)
    ranks = range(nnodes * NPROC)
    labels = pack_labels({r: {"tp": str(r % 8), "dp": str(r // 8 % 125), "pp": str(r // 1_000)} for r in ranks})
    gang = Gang(
        job_id="bench",
        born_at=datetime.now(UTC),
        spec=JobSpec(nnodes=nnodes, nproc_per_node=NPROC),
        phase=Phase.RUNNING,
        table=first,
        members=members,
        started=frozenset(seated),
        labels=labels,
    )
    raw = encode_gang(gang)
    layout_of.cache_clear()
    return {
        "ranks": nnodes * NPROC,
        "first_table_ms": best_ms(
            lambda: first_table(members.values(), nnodes=nnodes, nproc=NPROC, topology_version=1)
        ),
        "next_table_ms": best_ms(lambda: next_table(first, members, {7: spare})),
        "layout_cold_ms": best_ms(lambda: (layout_of.cache_clear(), layout_of(labels, nproc=NPROC))),
        "encode_ms": best_ms(lambda: encode_gang(gang)),
        "deflate_ms": best_ms(lambda: zlib.compress(raw, LEVEL)),
        "record_bytes": len(raw),
        "record_deflated_bytes": len(zlib.compress(raw, LEVEL)),
        "head_bytes_max": HEAD_BYTES_MAX,
        "start_rows_packed_bytes": len(pack_rows(first.rows)),
    }


async def decisions(bus: str, nnodes: int, rounds: int) -> Decisions:
    """One size on one bus."""
    if bus == "memory":
        async with memory_world() as world:
            return await measure(world, bus=bus, nnodes=nnodes, rounds=rounds)
    with tempfile.TemporaryDirectory() as folder:
        async with nats_world(Path(folder), "always") as world:
            return await measure(world, bus=bus, nnodes=nnodes, rounds=rounds)


def told(row: Mapping[str, object]) -> str:
    """One line of figures."""
    shown = {name: f"{value:.1f}" if isinstance(value, float) else str(value) for name, value in row.items()}
    return "  ".join(f"{name} {value}" for name, value in shown.items())


def main() -> None:
    """Run the measurements that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nnodes", type=int, default=16, help="size of the gang whose decisions are timed")
    parser.add_argument("--rounds", type=int, default=7, help="recoveries of each; at most the median is told")
    parser.add_argument("--out", type=Path, default=ROOT / ".bench" / "planner.json")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    found: dict[str, object] = {"load": os.getloadavg(), "cpus": os.cpu_count(), "decisions": [], "tables": []}
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for bus in ("memory", "nats"):
        timed = asyncio.run(decisions(bus, given.nnodes, given.rounds))
        row = {
            "bus": bus,
            "nnodes": given.nnodes,
            "rounds": len(timed.rounds),
            "decision_ms": 1_000 * timed.median_s(lambda each: each.decision_s),
            "stop_ms": 1_000 * timed.median_s(lambda each: each.stop_s),
            "start_ms": 1_000 * timed.median_s(lambda each: each.start_s),
            "reports_ms": 1_000 * timed.median_s(lambda each: each.reports_s),
        }
        found["decisions"] += [row]  # type: ignore[operator]
        print(told(row))
    for nnodes in (16, LARGE):
        sizes = tables(nnodes)
        found["tables"] += [{"nnodes": nnodes, **sizes}]  # type: ignore[operator]
        print(told({"nnodes": nnodes, **sizes}))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

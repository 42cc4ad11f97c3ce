"""What a recovery waits for the planner, and what a gang of 12,500 nodes costs: `make bench-planner`.

    decision   a rank dies, and later its node is blamed: from each word to the planner's command, heard by the agents.
               What agents take to stop and start is not in it. On the memory bus (the planner's own work) and over a
               real nats-server that stores each message.
    broadcast  one StopWorkers to 4,096 agents with a connection each, and as many bytes without stream and decoding
    ranks      the map of 100,000 ranks, first and after a node was replaced; CPU time
    records    of that gang in the key-value store, which carries 1 MB a message

All of it runs on this machine: the fleet, the server and the planner share its cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from planner_bench import broadcast, scale
from planner_bench.decision import Decisions, measure, memory_stage, nats_stage

from phalanx_cli.stack.nats_server import SyncInterval
from service_kit.large_values import HEAD_BYTES_MAX
from service_kit.lifecycle import calm_the_collector
from service_kit.logging import configure_logging
from service_kit.settings import LogFormat

SMALL, LARGE = 16, 12_500
SMALL_LIMIT_S, LARGE_LIMIT_S, STOP_LIMIT_S, RANKS_LIMIT_S = 0.010, 0.200, 1.0, 0.2


def show_decisions(each: Decisions, limit_s: float) -> bool:
    """A row of the table; whether the figure is reached."""
    stop_s, start_s = each.median_s(lambda one: one.stop_s), each.median_s(lambda one: one.start_s)
    decision_s, reports_s = each.median_s(lambda one: one.decision_s), each.median_s(lambda one: one.reports_s)
    reached = decision_s <= limit_s
    print(
        f"decision   {each.nnodes:6} nodes, {each.bus:6}  {decision_s * 1e3:8.2f} ms  (stop {stop_s * 1e3:.2f}, start "
        f"{start_s * 1e3:.2f}; aim {limit_s * 1e3:.0f}; {len(each.rounds)} rounds; taking in all reports "
        f"{reports_s:.2f} s){'' if reached else '  MISSED'}",
        flush=True,
    )
    return reached


def show_broadcast(found: broadcast.Broadcast) -> bool:
    """Its rows; whether the figure is reached."""
    reached = found.stop.p99_s <= STOP_LIMIT_S
    for name, spread in (("stop", found.stop), ("bare", found.bare)):
        print(
            f"broadcast  {found.agents:6} agents, {name}    {spread.p99_s * 1e3:8.1f} ms p99  (median "
            f"{spread.median_s * 1e3:.1f}, last {spread.last_s * 1e3:.1f})"
        )
    print(f"           stop over bare {found.stop.p99_s / found.bare.p99_s:.2f}{'' if reached else '  MISSED'}")
    return reached


def show_scale(found: scale.Scale) -> bool:
    """Its rows; whether the figure is reached."""
    reached = max(found.first_s, found.next_s) <= RANKS_LIMIT_S and found.deflated_bytes < HEAD_BYTES_MAX
    print(
        f"ranks      {found.ranks:6} ranks           {found.first_s * 1e3:8.1f} ms first, {found.next_s * 1e3:.1f} ms "
        f"next, {found.layout_s * 1e3:.0f} ms to read their labels once\n"
        f"records    {found.deflated_bytes / 1e3:8.0f} kB deflated of {found.record_bytes / 1e3:.0f} kB (a message "
        f"carries {HEAD_BYTES_MAX / 1e3:.0f} kB), {found.encode_s * 1e3:.0f} ms to encode, "
        f"{found.deflate_s * 1e3:.0f} ms to deflate; all rows of a start {found.rows_bytes / 1e3:.0f} kB"
        f"{'' if reached else '  MISSED'}"
    )
    return reached


async def bench(options: argparse.Namespace) -> tuple[bool, dict[str, object]]:
    """Everything, printed as it comes."""
    sync = SyncInterval.ALWAYS if options.sync else SyncInterval.DEFAULT
    held, figures = [], {}
    for nnodes, rounds, limit_s in (
        (SMALL, options.rounds, SMALL_LIMIT_S),
        (options.nodes, options.large_rounds, LARGE_LIMIT_S),
    ):
        async with memory_stage() as stage:
            found = await measure(stage, bus="memory", nnodes=nnodes, rounds=rounds)
        held.append(show_decisions(found, limit_s))
        figures[f"decision-{nnodes}-memory"] = asdict(found)
        with tempfile.TemporaryDirectory() as folder:
            async with nats_stage(Path(folder), sync) as stage:
                found = await measure(stage, bus="nats", nnodes=nnodes, rounds=rounds)
        held.append(show_decisions(found, limit_s))
        figures[f"decision-{nnodes}-nats"] = asdict(found)
    with tempfile.TemporaryDirectory() as folder:
        crowd = await broadcast.measure(Path(folder), sync, agents=options.agents, rounds=options.broadcasts)
    held.append(show_broadcast(crowd))
    size = scale.measure(options.nodes)
    held.append(show_scale(size))
    return all(held), {**figures, "broadcast": asdict(crowd), "scale": asdict(size)}


def main() -> int:
    """Print the table; 1 when a figure is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="recoveries of the small gang (default 20)")
    parser.add_argument("--large-rounds", type=int, default=3, help="recoveries of the large gang (default 3)")
    parser.add_argument("--nodes", type=int, default=LARGE, help="nodes of the large gang (default 12500)")
    parser.add_argument("--agents", type=int, default=4_096, help="agents of the broadcast (default 4096)")
    parser.add_argument("--broadcasts", type=int, default=5, help="rounds of the broadcast (default 5)")
    parser.add_argument("--sync", action="store_true", help="the server calls fsync for each write")
    parser.add_argument("--json", type=Path, default=Path(".bench/planner.json"), help="where figures are written")
    options = parser.parse_args()
    configure_logging(service="bench", level="error", log_format=LogFormat.AUTO)
    calm_the_collector()  # as the service does
    print(f"load of the machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    reached, figures = asyncio.run(bench(options))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    print("reached" if reached else "not reached")
    return int(not reached)


if __name__ == "__main__":
    sys.exit(main())

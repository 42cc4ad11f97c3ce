"""How fast the kernel log is read: quiet lines, a storm of one Xid, a storm of many kinds; `make bench-kmsg`.

Through the whole path: a file of records, the reader, the parser, the fold, observations. Best of several runs, since
others use the machine; the target is 100,000 lines/s on less than a core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from node_agent.adapters.kmsg_source import kmsg_source
from node_agent.domain.device_directory import Directory
from node_agent.domain.observation import Observation
from service_kit.clock import SystemClock

LINES = 200_000
RUNS = 3
US_BETWEEN = 10
"""100,000 lines/s."""

SHAPES: dict[str, Callable[[int], str]] = {
    "quiet": lambda n: f'audit: type=1400 audit(1700000000.1:{n}): apparmor="ALLOWED" name="/proc/{n}/stat" comm="sh"',
    "storm_of_one": lambda _: "NVRM: Xid (PCI:0000:3b:00): 95, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    "storm_of_29": lambda n: f"NVRM: Xid (PCI:0000:{n % 29:02x}:00): 95, Uncontained: LTC TAG (0x2,0x0). RST: Yes",
    "storm_of_others": lambda n: f"NVRM: Xid (PCI:0000:3b:00): 45, pid={n % 8}, name=python3, Ch {n:08x}",
    "one_in_a_hundred": lambda n: (
        f"NVRM: Xid (PCI:0000:3b:00): 45, pid={n}, name=python3, Ch {n:08x}" if n % 100 == 0 else f"usb 1-{n}: reset"
    ),
}


END = "ffff:00:00"
"""Address in the last line."""


def measure(shape: Callable[[int], str], lines: int) -> dict[str, float]:
    """One run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kmsg"
        records = [f"3,{n},{n * US_BETWEEN},-;{shape(n)}\n" for n in range(lines)]
        records.append(f"3,{lines},{lines * US_BETWEEN + 2_000_000},-;NVRM: Xid (PCI:{END}): 14, the end\n")
        path.write_text("".join(records), encoding="utf-8")
        return asyncio.run(_read(path))


async def _read(path: Path) -> dict[str, float]:
    seen: list[Observation] = []
    ended = asyncio.Event()

    def emit(observation: Observation) -> None:
        seen.append(observation)
        if observation.component_id == END:
            ended.set()

    source = kmsg_source(Directory(), SystemClock(), path=path, driver_version=str, same_pids=False)
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    reading = asyncio.create_task(source.run(emit))
    await ended.wait()
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    counted = sum(each.count for each in seen if each.component_id != END)
    return {"wall_s": wall_s, "cpu_s": cpu_s, "observations": len(seen) - 1, "counted": counted}


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--out", type=Path, help="write the numbers here as JSON")
    asked = parser.parse_args()
    results = {}
    for name, shape in SHAPES.items():
        runs = [measure(shape, asked.lines) for _ in range(asked.runs)]
        best = min(runs, key=lambda run: run["cpu_s"])
        results[name] = best | {"lines_per_cpu_s": asked.lines / best["cpu_s"]}
        print(
            f"{name:<18} {asked.lines / best['cpu_s']:>10,.0f} lines/s of CPU "
            f"({best['observations']:,.0f} observations, {best['counted']:,.0f} lines counted in them)"
        )
    if asked.out is not None:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

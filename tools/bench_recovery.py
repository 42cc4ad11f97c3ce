"""From a fault in one of four ranks on two nodes to the first step that all ranks finished afterwards.

contestants   torchrun, NVRx's ft_launcher (--all), Phalanx with new processes, Phalanx with a re-executable block, and
              the floor: a process that imported torch forks four ranks, without detection, stop, decision or messages.
faults        kill (kill -9 of rank 3), raise (an exception in it), node (kill -9 of its agent), stop (SIGSTOP of it).

In rounds: each contestant's job starts afresh, trains until it has a checkpoint, and is hit by its faults one after
another, with the same training function (recovery_bench/training.py). Settings, and why these:
recovery_bench/contestants.py. Prints median, least and largest, a table to paste into docs/benchmarks.md, writes
.bench/recovery.json, and leaves no process behind, also when it is interrupted.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from recovery_bench.cells import Cell, Fault, Name, chosen, left_out
from recovery_bench.job import Run
from recovery_bench.rounds import Rounds
from recovery_bench.table import Comparison, Spread, compare, lines, pasted, spread, verdict

from service_kit.logging import configure_logging

OUT = Path(".bench/recovery.json")


def main() -> int:
    """Measure, print, write; 1 when a run did not recover or a promise does not hold."""
    options = _parser().parse_args()
    cells = chosen(options.only, options.faults, everything=options.all)
    machine = _machine()
    print(f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['cpu']}, Python {machine['python']}, "
          f"torch {machine['torch']}, load {machine['load']:.1f}")  # fmt: skip
    root = Path(tempfile.mkdtemp(prefix="phalanx-bench-"))
    rounds = Rounds(cells, root, lambda line: print(line, flush=True))
    with contextlib.ExitStack() as exits:
        exits.callback(_clean, root, keep=options.keep)
        # The bus client's log lines; its loggers keep the stream, so it stays open for all runs.
        configure_logging(
            service="bench", stream=exits.enter_context((root / "driver.log").open("w", encoding="utf-8"))
        )
        try:
            asyncio.run(_until_told(rounds, options.rounds))
        except asyncio.CancelledError:
            print("interrupted; everything that was started is ended")
            return 130
    for cell in chosen(options.only, options.faults, everything=True):
        if (reason := left_out(cell)) and cell not in cells:
            rounds.missing[cell] = reason
    return _report(rounds, machine)


async def _until_told(rounds: Rounds, count: int) -> None:
    """Ctrl-C and SIGTERM cancel the measuring, whose blocks then end what they started; a second one is not heard."""
    task = asyncio.create_task(rounds.measure(count))

    def leave() -> None:
        if not task.cancelling():
            task.cancel()

    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, leave)
    await task


def _report(rounds: Rounds, machine: dict[str, object]) -> int:
    figures = {cell: _points(runs) for cell, runs in rounds.runs.items() if runs}
    by_name = {_said(cell): points for cell, points in figures.items()}
    found = compare({cell.name: p["first step"] for cell, p in figures.items() if cell.fault is Fault.KILL})
    print("\nSeconds from the fault (floor: from the first fork) until all four ranks are there")
    print("\n".join(lines(by_name)))
    phases = {_said(cell): _phases(runs) for cell, runs in rounds.runs.items() if _phases(runs)}
    if phases:
        print("\nPhalanx's phases in ms, medians, from the planner's journal")
        for name, values in phases.items():
            told = "   ".join(f"{key.removesuffix('_s').replace('_', ' ')} {s * 1000:.0f}" for key, s in values.items())
            print(f"{name:18} {told}")
    print("\n" + "\n".join(verdict(found)))
    print("\nFor docs/benchmarks.md\n")
    print("\n".join(pasted({cell: p["first step"] for cell, p in figures.items()}, rounds.missing)))
    _write(rounds, machine, by_name, phases, found)
    held = (found.torchrun_over_phalanx or 10) >= 10 and (found.overhead_s or 0) <= 0.150
    return 0 if held and not rounds.failures else 1


def _write(
    rounds: Rounds,
    machine: dict[str, object],
    figures: dict[str, dict[str, Spread]],
    phases: dict[str, dict[str, float]],
    found: Comparison,
) -> None:
    OUT.parent.mkdir(exist_ok=True)
    result = {
        "command": " ".join(["tools/bench_recovery.py", *sys.argv[1:]]),
        "machine": machine,
        "figures": {
            name: {point: asdict(value) for point, value in points.items()} for name, points in figures.items()
        },
        "runs": {_said(cell): [{**asdict(r.recovery), "load": r.load} for r in rs] for cell, rs in rounds.runs.items()},
        "phalanx_phases_median": phases,
        "comparison": asdict(found),
        "missing": {_said(cell): reason for cell, reason in rounds.missing.items()},
        "failures": rounds.failures,
    }
    OUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten to {OUT}")


def _said(cell: Cell) -> str:
    return f"{cell.name} {cell.fault}"


def _points(runs: list[Run]) -> dict[str, Spread]:
    return {
        "torch ready": spread([run.recovery.entered_s for run in runs]),
        "group up": spread([run.recovery.group_s for run in runs]),
        "first step": spread([run.recovery.first_step_s for run in runs]),
    }


def _phases(runs: list[Run]) -> dict[str, float]:
    names = ("detect_s", "stop_s", "plan_s", "start_s", "first_step_s", "total_s")
    known = {name: [v for run in runs if run.phases and (v := getattr(run.phases, name)) is not None] for name in names}
    return {name: median(values) for name, values in known.items() if values}


def _machine() -> dict[str, object]:
    import torch

    fields = {
        line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if ":" in line
    }
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory_bytes / 2**30),
        "cpu": fields.get("model name", platform.machine()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _clean(root: Path, *, keep: bool) -> None:
    if keep:
        print(f"kept: {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="fresh jobs of each contestant, in turn (2)")
    parser.add_argument("--only", nargs="+", choices=list(Name), default=list(Name), help="contestants (all)")
    parser.add_argument("--faults", nargs="+", choices=list(Fault), default=list(Fault), help="faults (all)")
    parser.add_argument(
        "--all", action="store_true", help="also what takes minutes (torchrun's stop and node) or an installation"
    )
    parser.add_argument("--keep", action="store_true", help="keep logs and events")
    return parser


if __name__ == "__main__":
    sys.exit(main())

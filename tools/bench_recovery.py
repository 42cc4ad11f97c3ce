"""kill -9 of one of four ranks on two nodes, to the first step that all ranks finished afterwards.

Three contestants in turn, in the same run, with the same training function (recovery_bench/training.py):

torchrun   two agents with two ranks each. Its settings, and why these: recovery_bench/contestants.py.
phalanx    two `phalanx run` agents with two ranks each, embedded servers, three services.
floor      one process that imported torch forks four ranks: no detection, no stop, no decision, no messages.

Each run of torchrun and Phalanx starts a fresh job, trains until it has a checkpoint, and is hit once. Prints median,
least and largest, writes .bench/recovery.json, and leaves no process behind.
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from recovery_bench.contestants import Floor, Run, run_torchrun
from recovery_bench.events import NotReached
from recovery_bench.table import Spread, compare, lines, spread, verdict

from service_kit.logging import configure_logging

OUT = Path(".bench/recovery.json")
NAMES = ("torchrun", "phalanx", "floor")


def main() -> int:
    """Measure, print, write; 1 when a run did not recover or a promise does not hold."""
    options = _parser().parse_args()
    chosen = tuple(name for name in NAMES if name in options.only)
    machine = _machine()
    print(f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['cpu']}, Python {machine['python']}, "
          f"torch {machine['torch']}, load {machine['load']:.1f}")  # fmt: skip
    root = Path(tempfile.mkdtemp(prefix="phalanx-bench-"))
    runs: dict[str, list[Run]] = defaultdict(list)
    failures: list[str] = []
    with contextlib.ExitStack() as exits:
        exits.callback(_clean, root, keep=options.keep)
        # The bus client's log lines; its loggers keep the stream, so it stays open for all runs.
        configure_logging(
            service="bench", stream=exits.enter_context((root / "driver.log").open("w", encoding="utf-8"))
        )
        floor = None
        if "floor" in chosen:
            folder = root / "floor"
            folder.mkdir()
            floor = Floor(folder)
            exits.callback(floor.end)
            floor.run()  # its checkpoint is written here; not counted
        for number in range(options.runs):
            for name in chosen:
                try:
                    run = _one(name, root / f"{name}-{number}", floor)
                except NotReached as error:
                    failures.append(f"{name} run {number + 1}: {error}")
                    print(f"{name:10} run {number + 1}: {error}", flush=True)
                    continue
                runs[name].append(run)
                print(f"{name:10} run {number + 1}: {run.recovery.first_step_s:.3f} s", flush=True)
    return _report(runs, failures, machine)


def _one(name: str, folder: Path, floor: Floor | None) -> Run:
    if floor is not None and name == "floor":
        return floor.run()
    folder.mkdir()
    if name == "torchrun":
        return run_torchrun(folder)
    from recovery_bench.phalanx_job import run_phalanx

    return run_phalanx(folder)


def _report(runs: dict[str, list[Run]], failures: list[str], machine: dict[str, object]) -> int:
    figures: dict[str, dict[str, Spread]] = {
        name: {
            "torch ready": spread([run.recovery.entered_s for run in of_name]),
            "group up": spread([run.recovery.group_s for run in of_name]),
            "first step": spread([run.recovery.first_step_s for run in of_name]),
        }
        for name, of_name in runs.items()
    }
    found = compare({name: points["first step"] for name, points in figures.items()})
    print("\nSeconds from the fault (floor: from the first fork) until all four ranks are there")
    print("\n".join(lines(figures)))
    phases = _phases(runs.get("phalanx", []))
    if phases:
        print("\nPhalanx's phases, median, from the planner's journal")
        print(
            "   ".join(
                f"{name.removesuffix('_s').replace('_', ' ')} {value * 1000:.0f} ms" for name, value in phases.items()
            )
        )
    print("\n" + "\n".join(verdict(found)))
    OUT.parent.mkdir(exist_ok=True)
    result = {
        "command": "make bench-recovery",
        "machine": machine,
        "figures": {
            name: {point: asdict(value) for point, value in points.items()} for name, points in figures.items()
        },
        "runs": {
            name: [{**asdict(run.recovery), "load": run.load} for run in of_name] for name, of_name in runs.items()
        },
        "phalanx_phases_median": phases,
        "comparison": asdict(found),
        "failures": failures,
    }
    OUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten to {OUT}")
    held = (found.torchrun_over_phalanx or 10) >= 10 and (found.overhead_s or 0) <= 0.150
    return 0 if held and not failures else 1


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
    parser.add_argument("--runs", type=int, default=5, help="of each contestant, interleaved (5)")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="which contestants (all)")
    parser.add_argument("--keep", action="store_true", help="keep logs and events")
    return parser


if __name__ == "__main__":
    sys.exit(main())

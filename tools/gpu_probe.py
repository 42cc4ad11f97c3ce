"""One look with everything that the host role has, on a machine with a real GPU (or none): saved as JSON.

make gpu-probe OUT=probe.json. It writes nothing but that file, opens no CUDA context and changes no setting of a GPU.
Exit code 0: NVML was read; 3: there is no GPU here, which the file says too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from node_agent.adapters import machine
from node_agent.adapters.kmsg_source import kmsg_source
from node_agent.adapters.nvml_collector import NvmlLimits
from node_agent.adapters.nvml_sources import nvml_sources
from node_agent.adapters.pci_gpus import gpus_on_bus
from node_agent.application.collector_ports import Collector, CollectorFailed, EventSource
from node_agent.domain.device_directory import Directory
from node_agent.domain.observation import Observation
from service_kit.clock import SystemClock

EXIT_NO_GPU = 3
OBSERVATIONS_MAX = 5_000
"""A kernel log may hold tens of thousands of lines; so many are enough to see what is read."""


async def looked(collector: Collector, clock: SystemClock) -> dict[str, Any]:
    """One look, with how long it took."""
    began_s = clock.monotonic_s()
    try:
        told, problem = await asyncio.wait_for(collector.collect(), collector.deadline_s), ""
    except (CollectorFailed, TimeoutError) as error:
        told, problem = (), f"{type(error).__name__}: {error}"
    took_s = round(clock.monotonic_s() - began_s, 3)
    return {"took_s": took_s, "problem": problem, "observations": [asdict(one) for one in told]}


async def followed(source: EventSource, watch_s: float) -> dict[str, Any]:
    """What a source tells in a while."""
    told: list[Observation] = []
    left_out = 0

    def emit(observation: Observation) -> None:
        nonlocal left_out
        if len(told) < OBSERVATIONS_MAX:
            told.append(observation)
        else:
            left_out += 1

    problem = ""
    try:
        await asyncio.wait_for(source.run(emit), watch_s)
        problem = "ended by itself: there is nothing of the kind here, or it may not be read"
    except TimeoutError:
        pass  # it goes on until somebody stops it
    except CollectorFailed as error:
        problem = str(error)
    return {
        "watched_s": watch_s,
        "problem": problem,
        "left_out": left_out,
        "observations": [asdict(one) for one in told],
    }


async def probe(library: str, watch_s: float) -> dict[str, Any]:
    """Everything that can be looked at."""
    clock, directory = SystemClock(), Directory()
    nvml = nvml_sources(
        directory=directory,
        clock=clock,
        boot_id=machine.boot_id(Path("/proc")),
        library=library,
        limits=NvmlLimits(whole_every_s=0.0),
    )
    kernel_log = kmsg_source(directory, clock, driver_version=lambda: machine.nvidia_driver_version(Path("/proc")))
    try:
        looks = [await looked(nvml.collector, clock) for _ in range(3)]
    finally:
        await nvml.collector.close()
    kernel, events = await asyncio.gather(followed(kernel_log, watch_s), followed(nvml.events, watch_s))
    return {
        "probed_at": clock.now().isoformat(),
        "gpus_on_bus": gpus_on_bus(),
        "driver_version": nvml.collector.driver_version,
        "devices": [device.model_dump(mode="json") for device in directory.all()],
        "nvml": looks,
        "nvml_events": events,
        "kernel_log": kernel,
    }


def main() -> int:
    """Probe, save, and say in a few lines what was seen."""
    parser = argparse.ArgumentParser(prog="gpu-probe", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu-probe.json"))
    parser.add_argument("--library", default="", help="path of libnvidia-ml.so.1, if not on the loader's path")
    parser.add_argument("--watch-s", type=float, default=5.0, help="how long kernel log and events are followed")
    arguments = parser.parse_args()
    seen = asyncio.run(probe(arguments.library, arguments.watch_s))
    arguments.out.write_text(json.dumps(seen, indent=1, default=str) + "\n", encoding="utf-8")
    told = seen["nvml"][-1]["observations"]
    not_ok = [one for one in told if one["health"] != "ok"]
    print(f"{len(seen['devices'])} GPUs, driver {seen['driver_version'] or 'none'}; {len(told)} observations of NVML,")
    print(f"{len(not_ok)} of them not ok; looks took {', '.join(str(look['took_s']) for look in seen['nvml'])} s.")
    for one in not_ok:
        print(f"  {one['health']}: {one['check']} {one['component_id']}: {one['detail']}")
    print(f"{len(seen['kernel_log']['observations'])} findings in the kernel log. All of it: {arguments.out}")
    if not seen["devices"]:
        print("There is no GPU here that NVML can see: nothing was measured on real hardware.")
        return EXIT_NO_GPU
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The demo's machines: a real `phalanx host` for each node, with a fake driver library and a kernel log in a file.

What it watches is made up; the rest is real: nvidia-ml-py in its child process, the parser of the kernel log,
the bus, the services.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from phalanx_cli.demo.scenario import RANKS_PER_NODE
from phalanx_cli.drill.carry_out import content, inject
from phalanx_cli.drill.fake_library import build, environment
from phalanx_cli.drill.fake_state import ControlFile
from phalanx_cli.drill.injection import Kind, Order, gpu_of
from phalanx_cli.drill.node_card import find_node
from phalanx_cli.drill.xid_lines import Gpu
from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec

LOOK_S = 0.5
"""Between two looks at the GPUs: a machine's 30 s would be the demo's longest wait."""
STOP_LIMIT_S = 5.0


class Hosts:
    """The host roles of one job; all are ended with the block, however it is left."""

    def __init__(
        self, folder: Path, *, cluster: str, nats_url: str, cache: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        """Build the library. `settings` are further ones of the host roles, as environment variables.

        Raises:
            NoCompiler, BuildFailed: it cannot be built here.
        """
        self._folder = folder
        self._cluster = cluster
        self._nats_url = nats_url
        self._library = build(cache)
        self._settings = dict(settings or {})
        self._processes: dict[str, GuardedProcess] = {}

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.stop(STOP_LIMIT_S)

    def start(self, node_ids: Sequence[str]) -> None:
        """One machine a node, each with as many GPUs as ranks and with devices of its own."""
        for number, node_id in enumerate(node_ids, len(self._processes) + 1):
            place = self._folder / node_id
            place.mkdir(parents=True, exist_ok=True)
            self.kmsg(node_id).touch()
            # Under load, as all of a gang are: a GPU is compared with peers that work as hard.
            load = {f"{index}.utilization": 95 for index in range(RANKS_PER_NODE)}
            self.state(node_id).set({"sys.count": RANKS_PER_NODE, "sys.node": number, **load})
            argv = (
                *(sys.executable, "-P", "-m", "phalanx_cli.main", "host", "--node-id", node_id),
                *("--cluster", self._cluster, "--nats-url", self._nats_url, "--data-dir", str(self._folder)),
                *("--kmsg", str(self.kmsg(node_id)), "--nvml", "on", "--sweep", str(LOOK_S)),
                *("--gpus-expected", str(RANKS_PER_NODE)),
            )
            self._processes[node_id] = GuardedProcess(
                ProcessSpec(
                    name=f"host {node_id}",
                    argv=argv,
                    log_path=self._folder / f"{node_id}.log",
                    env={
                        **environment(self._library, self.state(node_id).path, os.environ),
                        **self._settings,
                        "PYTHONUNBUFFERED": "1",
                    },
                )
            )

    def break_gpu(self, node_id: str, index: int, kind: Kind, value: str, *, pid: int | None = None) -> Gpu:
        """What `phalanx inject KIND VALUE --node NODE --gpu INDEX` does; the GPU that it was done to."""
        card = find_node(self._folder, node_id)
        gpu = gpu_of(content(card), index)
        inject(card, Order(kind=kind, value=value, gpu=gpu, pid=pid, process="python3"), force=False)
        return gpu

    def kmsg(self, node_id: str) -> Path:
        """The kernel log of a node."""
        return self._folder / node_id / "kmsg"

    def state(self, node_id: str) -> ControlFile:
        """What the GPUs of a node answer."""
        return ControlFile(self._folder / node_id / "nvml.state")

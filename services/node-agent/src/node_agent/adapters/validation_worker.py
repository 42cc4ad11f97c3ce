"""One member of a validation: `python -m node_agent.adapters.validation_worker`, one process a device.

It does what the coordinator orders, one order at a time, and answers each. It decides nothing: deadlines, blame and
verdict are the coordinator's, who lives on when this process computes wrong, hangs or dies.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import time
from datetime import timedelta
from typing import Any

from node_agent.adapters.validation_drill import (
    DrillKind,
    before_pair,
    before_sending,
    forget,
    multiply_wrong,
)
from worker_link.linux import die_with_parent

LINE_MAX = 1 << 20
CONNECT_RETRY_S = 0.2


class ValidationWorker:
    """The member's side of the conversation."""

    def __init__(self, line: socket.socket, options: argparse.Namespace) -> None:
        self._line = line
        self._reader = line.makefile("rb")
        self._options = options
        self._drill = DrillKind(options.drill) if options.drill else None

    def serve(self) -> int:
        """Until the coordinator hangs up. Returns the exit code."""
        import torch.distributed as dist

        address = self._line.getsockname()[0]
        if address.startswith("127."):
            # The name of this host may lead elsewhere; whoever meets on loopback stays on loopback.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        limit = timedelta(seconds=self._options.limit)
        store_at = dist.TCPStore  # type: ignore[attr-defined, unused-ignore]  # torch's __all__ leaves it out
        self._store = store_at(host_name=address, port=0, is_master=True, timeout=limit, wait_for_workers=False)
        self._say({"hello": self._hello(address, self._store.port)})
        while order := self._reader.readline(LINE_MAX):
            told = json.loads(order)
            try:
                answer = self._obey(told)
            except (RuntimeError, OSError, ValueError) as error:
                # torch tells time-outs, lost peers and failed kernels alike with RuntimeError and its kin.
                answer = {"end": "stalled", "detail": _first_line(error)}
            self._say({"id": told["id"], **answer})
        return 0

    def _say(self, message: dict[str, Any]) -> None:
        self._line.sendall(json.dumps(message).encode() + b"\n")

    def _hello(self, address: str, port: int) -> dict[str, Any]:
        options = self._options
        told = {
            "run": options.run,
            "rank": options.rank,
            "node_rank": options.node_rank,
            "node_id": options.node_id,
            "pid": os.getpid(),
            "device": options.device,
            "device_id": "",
            "device_name": "cpu",
            "store_address": address,
            "store_port": port,
        }
        if options.device.startswith("cuda"):
            import torch

            torch.cuda.set_device(options.device)
            properties = torch.cuda.get_device_properties(options.device)
            told["device_name"] = properties.name
            told["device_id"] = f"GPU-{properties.uuid}" if hasattr(properties, "uuid") else ""
        return told

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        match order["do"]:
            case "device":
                return {"end": "ok", "findings": self._check_device(order)}
            case "sum":
                return self._in_group(order, self._sum)
            case "pair":
                before_pair(self._drill)
                return self._in_group(order, self._pair)
            case other:
                raise ValueError(f"unknown order {other!r}")

    def _check_device(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        from node_agent.adapters import validation_device as checks

        device = self._options.device
        multiply = multiply_wrong if self._drill is DrillKind.MATMUL else checks.multiply
        products = checks.check_matmul(
            device, size=order["matmul_size"], duration_s=order["duration_s"], multiply=multiply
        )
        size = checks.memory_wanted(device, asked_bytes=order["memory_bytes"])
        spoil = forget if self._drill is DrillKind.MEMORY else None
        return [*products, checks.check_memory(device, size_bytes=size, spoil=spoil)]

    def _in_group(self, order: dict[str, Any], test: Any) -> dict[str, Any]:
        import torch.distributed as dist

        from node_agent.adapters.validation_exchange import group_of

        limit_s = float(order["limit_s"])
        began = time.monotonic()
        store = self._store
        if order["rank"] != 0:
            address, port = order["store"]
            limit = timedelta(seconds=limit_s)
            store_at = dist.TCPStore  # type: ignore[attr-defined, unused-ignore]
            store = store_at(host_name=address, port=port, timeout=limit, wait_for_workers=False)
        own = dist.PrefixStore(order["key"], store)  # type: ignore[attr-defined, unused-ignore]
        own.set_timeout(timedelta(seconds=limit_s))
        with group_of(store=own, rank=order["rank"], size=order["size"], device=self._options.device, limit_s=limit_s):
            left_s = max(limit_s - (time.monotonic() - began), 0.1)
            answer: dict[str, Any] = test(order, left_s)
            return answer

    def _sum(self, order: dict[str, Any], left_s: float) -> dict[str, Any]:
        from node_agent.adapters.validation_exchange import check_sum

        return check_sum(
            rank=order["rank"],
            size=order["size"],
            device=self._options.device,
            size_bytes=order["size_bytes"],
            repeats=order["repeats"],
            limit_s=left_s,
            drill=self._before_sending,
        )

    def _pair(self, order: dict[str, Any], left_s: float) -> dict[str, Any]:
        from node_agent.adapters.validation_exchange import check_pair

        return check_pair(
            rank=order["rank"],
            device=self._options.device,
            size_bytes=order["size_bytes"],
            repeats=order["repeats"],
            limit_s=left_s,
            drill=self._before_sending,
        )

    def _before_sending(self, data: Any) -> None:
        before_sending(self._drill, data)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def _connect(address: str, port: int, *, limit_s: float) -> socket.socket:
    """The coordinator may start after us."""
    give_up_at = time.monotonic() + limit_s
    while True:
        try:
            line = socket.create_connection((address, port), timeout=max(give_up_at - time.monotonic(), 0.1))
            line.settimeout(None)
            return line
        except OSError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(CONNECT_RETRY_S)


def main() -> int:
    """Read the flags that validation_members gives, and serve."""
    parser = argparse.ArgumentParser(prog="validation_worker")
    for name in ("run", "node-id", "device", "address", "drill"):
        parser.add_argument(f"--{name}", default="")
    for name in ("rank", "node-rank", "port", "parent"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--limit", type=float, required=True)
    options = parser.parse_args()
    if not die_with_parent(options.parent, signal.SIGKILL):
        return 1
    try:
        line = _connect(options.address, options.port, limit_s=options.limit)
    except OSError as error:
        sys.stderr.write(f"no coordinator at {options.address}:{options.port}: {error}\n")
        return 1
    with line:
        return ValidationWorker(line, options).serve()


if __name__ == "__main__":
    sys.exit(main())

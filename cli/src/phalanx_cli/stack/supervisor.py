"""The process behind `phalanx up`: holds the stack until SIGTERM or SIGINT. Started by `developer.up`, not by people.

The servers and services are tied to this process: they outlive the command, and they do not outlive this.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.services import ServiceSpec
from phalanx_cli.stack.stack import Stack
from phalanx_cli.stack.state import StackOwner

ERROR_FILE = "up.error"
"""Why the stack did not start, in the data folder, for the command that waits for it."""


def supervisor_argv(data_dir: Path, cluster: str, services: Sequence[ServiceSpec]) -> tuple[str, ...]:
    """Return the command line. URLs are not in it: they may carry passwords, and `ps` shows arguments to everybody."""
    specs = json.dumps([{"name": spec.name, "module": spec.module, "env": dict(spec.env)} for spec in services])
    return sys.executable, "-P", "-m", "phalanx_cli.stack.supervisor", str(data_dir), cluster, specs


async def hold(data_dir: Path, cluster: str, services: Sequence[ServiceSpec]) -> None:
    """Hold the stack until a signal asks for its end."""
    asked_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    starting = asyncio.current_task()
    assert starting is not None, "runs in a task"

    def end() -> None:
        # Before the stack is up nobody waits for the event: the start itself is what must end.
        asked_to_end.set()
        if not is_up:
            starting.cancel()

    is_up = False
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, end)
    stack = Stack(
        data_dir,
        cluster,
        services=services,
        nats_url=os.environ.get("NATS_URL"),
        redis_url=os.environ.get("REDIS_URL"),
        owner=StackOwner.UP,
    )
    async with stack:
        is_up = True
        await asked_to_end.wait()


def main() -> int:
    """Read the command line of `supervisor_argv` and hold the stack; returns the exit code."""
    data_dir, cluster, raw_specs = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(hold(data_dir, cluster, tuple(ServiceSpec(**raw) for raw in raw_specs)))
    except StackError as error:
        logging.getLogger("phalanx.stack").error("stack_failed reason=%s", error)
        (data_dir / ERROR_FILE).write_text(f"{error}\n", encoding="utf-8")
        return 1
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
    return 0


if __name__ == "__main__":
    sys.exit(main())

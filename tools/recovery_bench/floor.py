"""The floor: what no control plane can save. A process that imported torch forks four ranks when told to.

Counted from just before the first fork: fork, store rendezvous, process group, checkpoint, first step. Nothing is
detected, nothing is stopped, nothing is decided, nobody is told.

On standard input one line asks for one start; a second line ends its ranks.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from recovery_bench import training
from worker_link.store_wait import wait_for_store

WORLD_SIZE = 4


def main() -> None:
    """Serve starts until standard input closes."""
    say({"event": "prepared"})
    while sys.stdin.readline():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        started_s = time.monotonic()
        pids = [fork_rank(rank, port) for rank in range(WORLD_SIZE)]
        say({"event": "started", "at_s": started_s})
        sys.stdin.readline()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
        say({"event": "ended"})


def fork_rank(rank: int, port: int) -> int:
    """One rank; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.environ.update(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(WORLD_SIZE),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
        )
        wait_for_store(os.environ)  # else the floor would pay for ranks that come before rank 0, and not be one
        training.run()
    finally:
        os._exit(1)


def say(message: dict[str, object]) -> None:
    """One line for the driver."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""The run that nothing happens to: four ranks forked from one process, without agents, services or faults.

Its final weights are what the run with the faults is compared with. It uses nothing of Phalanx but the training
script itself, so that a mistake in the recovery cannot be in both.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback

from phalanx_cli.demo import train


def main() -> None:
    """Fork the ranks, wait for all, and leave with 1 when one of them failed."""
    world_size = int(sys.argv[1])
    sys.argv = [train.__file__, *sys.argv[2:]]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world_size)}
    pids = [_fork_rank(rank, env) for rank in range(world_size)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    if any(codes):
        sys.exit(f"the unfailed run failed: exit codes of its ranks {codes}")


def _fork_rank(rank: int, env: dict[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ.update(env, RANK=str(rank), LOCAL_RANK=str(rank))
        train.main()
        code = 0
    except BaseException:  # noqa: BLE001 - the edge of a forked process: print it, and never fall back into the parent's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main()

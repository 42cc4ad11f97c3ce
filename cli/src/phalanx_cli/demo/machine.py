"""A machine of the demo in a container: `python -m phalanx_cli.demo.machine FOLDER NODE...`.

It runs the host role of its first node, and starts `phalanx run` for any of its nodes when the demo, which is in
another container, asks for it through a socket in a folder that both see (elsewhere.py is the other end).
It starts nothing else: what it is sent are the arguments of `phalanx run`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec

PHALANX = (sys.executable, "-P", "-m", "phalanx_cli.main")
ORDER_BYTES_MAX = 64 * 1024
ORDER_LIMIT_S = 10.0
IDENTITIES = "PHALANX_DEMO_IDENTITIES"
"""Folder with the identities of the machine's nodes, where the bus asks for some."""
HOST_STOP_S = 5.0
HOST_RESTART_S = 2.0
"""A host role that ended is started again after so long; a crash loop costs little."""


def socket_of(folder: Path, node_id: str) -> Path:
    """Where the machine of a node listens."""
    return folder / f"{node_id}.sock"


def environment(role: str, node_id: str) -> dict[str, str]:
    """Ours, and the identity of a node in a role; each process has its own and no other."""
    folder = os.environ.get(IDENTITIES, "")
    return {**os.environ, "NATS_NKEY_SEED_FILE": f"{folder}/{role}-{node_id}.nk"} if folder else dict(os.environ)


class BadOrder(ValueError):
    """What was sent is no order; the text says why."""


def read_order(line: bytes) -> tuple[tuple[str, ...], Path]:
    """Arguments of `phalanx run`, and the file for its terminal output.

    Raises:
        BadOrder: it is something else.
    """
    try:
        order = json.loads(line)
        arguments, log = order["run"], order["log"]
    except (ValueError, TypeError, KeyError) as error:
        raise BadOrder(f"not an order: {error}") from error
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        raise BadOrder("run: a list of words is wanted")
    if not isinstance(log, str) or not log.startswith("/"):
        raise BadOrder("log: an absolute path is wanted")
    return tuple(arguments), Path(log)


async def serve_order(node_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One `phalanx run`, from its order to its end; whoever ordered it is told how it ended.

    When the other side goes, it is killed: nobody would be left to end it.
    """
    process: GuardedProcess | None = None
    try:
        async with asyncio.timeout(ORDER_LIMIT_S):
            arguments, log = read_order(await reader.readline())
        process = GuardedProcess(
            ProcessSpec(
                name=node_id, argv=(*PHALANX, "run", *arguments), log_path=log, env=environment("launcher", node_id)
            )
        )
        ended = asyncio.create_task(process.wait())
        words = asyncio.create_task(_obey(process, reader))
        await asyncio.wait((ended, words), return_when=asyncio.FIRST_COMPLETED)
        words.cancel()
        process.kill()
        writer.write(json.dumps({"code": await ended}).encode() + b"\n")
        await writer.drain()
    except (BadOrder, TimeoutError, OSError) as error:
        sys.stderr.write(f"machine of {node_id}: {type(error).__name__}: {error}\n")
    finally:
        if process is not None:
            process.kill()
        writer.close()


async def _obey(process: GuardedProcess, reader: asyncio.StreamReader) -> None:
    """Each line asks for a decent end; the end of the lines for any end at all."""
    while await reader.readline():
        process.terminate()


async def keep_host(node_id: str, log: Path) -> None:
    """The host role of this machine, started again whenever it ends."""
    while True:
        process = GuardedProcess(
            ProcessSpec(
                name=f"host {node_id}",
                argv=(*PHALANX, "host", "--node-id", node_id),
                log_path=log,
                env=environment("host", node_id),
            )
        )
        try:
            await process.wait()
            sys.stderr.write(f"machine of {node_id}: the host role ended with {process.ending}: see {log}\n")
        finally:
            process.stop(HOST_STOP_S)
        await asyncio.sleep(HOST_RESTART_S)


async def run(folder: Path, node_ids: list[str]) -> None:
    """Until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    servers = []
    for node_id in node_ids:
        path = socket_of(folder, node_id)
        path.unlink(missing_ok=True)  # of an earlier life of this container
        server = await asyncio.start_unix_server(partial(serve_order, node_id), path, limit=ORDER_BYTES_MAX)
        path.chmod(0o600)
        servers.append(server)
    host = asyncio.create_task(keep_host(node_ids[0], folder / f"{node_ids[0]}.host.log"))
    sys.stderr.write(f"machine of {', '.join(node_ids)}: ready\n")
    await stop.wait()
    host.cancel()
    await asyncio.gather(host, return_exceptions=True)
    for server in servers:
        server.close()


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit code."""
    if len(arguments) < 2:
        sys.stderr.write("usage: python -m phalanx_cli.demo.machine FOLDER NODE [NODE...]\n")
        return 2
    folder = Path(arguments[0]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(folder, arguments[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

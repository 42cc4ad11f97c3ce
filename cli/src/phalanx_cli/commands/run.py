"""`phalanx run`: the agent in this process, and around it, where no bus is named, the servers and services of the run.

Imports neither typer nor rich: this process lives as long as the job, beside the training.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from node_agent.adapters.agent_folder import folder_name, make_log_dir
from node_agent.adapters.launch_options import LaunchOptions
from node_agent.adapters.launcher_flags import check_program, parse_launch
from node_agent.adapters.own_address import owns_address
from node_agent.adapters.terminal import Terminal
from node_agent.domain.job_end import ExitCode
from node_agent.main import job_id_of, run_launcher
from node_agent.settings import AgentSettings
from phalanx_cli.commands.run_folders import remove_old_runs
from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.probes import nats_problem
from phalanx_cli.stack.stack import Stack

PORT_DEFAULT = 29_400
"""torchrun's default port of a c10d rendezvous (torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py)."""


GREETING_S = 2.0
"""A nats-server that has its port greets within milliseconds; whoever is silent for so long is something else."""


class BadEndpoint(ValueError):
    """The nodes cannot meet; the message is for the user."""


def run(argv: Sequence[str]) -> int:
    """Run one node's part of a job; returns the exit code."""
    options = parse_launch(argv, os.environ)
    terminal = Terminal()
    try:
        problem = check_program(options, Path.cwd())
        if problem:
            terminal.notice(problem)
            return ExitCode.USAGE
        settings = AgentSettings().model_copy(update={"cluster": options.cluster})
        # Looked at first: starting servers takes seconds, and a mistake should be told at once.
        try:
            make_log_dir(options.data_dir)
            make_log_dir(options.log_dir or options.data_dir / "logs")
        except OSError as error:
            terminal.notice(f"cannot set up the folders of this run: {error}")
            return ExitCode.CANNOT_CREATE
        return asyncio.run(_run(options, settings, terminal))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        terminal.notice(f"bad setting {'.'.join(map(str, first['loc']))}: {first['msg']}")
        return ExitCode.BAD_SETTINGS
    except BadEndpoint as error:
        terminal.notice(str(error))
        return ExitCode.USAGE
    except StackError as error:
        for line in str(error).splitlines():
            terminal.notice(line)
        return ExitCode.BUS_UNAVAILABLE
    except KeyboardInterrupt:
        terminal.notice("interrupted before the job began; nothing was left running")
        return ExitCode.CANCELLED
    finally:
        terminal.close()


async def _run(options: LaunchOptions, settings: AgentSettings, terminal: Terminal) -> int:
    job_id = job_id_of(options)
    nats_url = options.nats_url
    listen: tuple[str, int] | None = None
    if not nats_url and options.endpoint:
        nats_url, listen = await _meeting_point(options)
    elif not nats_url and options.spec.nnodes + options.spec.spares > 1:
        raise BadEndpoint(
            "a job over several nodes needs a meeting point: --rdzv-endpoint HOST:PORT, the same on every node, "
            "or --nats-url of a running bus"
        )
    if nats_url:
        settings = settings.model_copy(update={"nats_url": nats_url})
        return await run_launcher(options, settings, job_id=job_id, terminal=terminal)
    began_s = time.monotonic()
    terminal.notice("starting nats-server, Valkey and the services of this run")
    run_name = f"{job_id}-{os.getpid()}" if options.job_id else job_id
    folder = options.data_dir / "runs" / folder_name(run_name)
    remove_old_runs(options.data_dir / "runs")
    redis_url = os.environ.get("REDIS_URL") or None
    try:
        async with Stack(folder, settings.cluster, redis_url=redis_url, nats_listen=listen) as stack:
            terminal.notice(f"they are up after {time.monotonic() - began_s:.1f} s; their logs: {folder / 'logs'}")
            settings = settings.model_copy(update={"nats_url": stack.nats_url})
            return await run_launcher(options, settings, job_id=job_id, terminal=terminal)
    except StackError:
        # Two agents on one machine that were started together both mean to host; one is faster.
        url = "" if listen is None else f"nats://{listen[0]}:{listen[1]}"
        if not url or await asyncio.to_thread(nats_problem, url) is not None:
            raise
    terminal.notice(f"another agent on this machine hosts {url}")
    settings = settings.model_copy(update={"nats_url": url})
    return await run_launcher(options, settings, job_id=job_id, terminal=terminal)


async def _meeting_point(options: LaunchOptions) -> tuple[str, tuple[str, int] | None]:
    """The bus of a job over several nodes: its URL where another node hosts it, else where to listen."""
    host, _, port_text = options.endpoint.rpartition(":")
    if not host:
        host, port_text = options.endpoint, str(PORT_DEFAULT)
    if not port_text.isdecimal() or not 0 < int(port_text) < 65_536:
        raise BadEndpoint(f"--rdzv-endpoint {options.endpoint!r}: give HOST or HOST:PORT")
    url = f"nats://{host}:{port_text}"
    ours = options.node_rank == 0 if options.node_rank is not None else await asyncio.to_thread(owns_address, host)
    if not ours or await asyncio.to_thread(nats_problem, url) is None:
        # Another node hosts it (or another agent on this machine does); connecting is tried until the limit.
        return url, None
    taken = await asyncio.to_thread(_taken, host, int(port_text))
    if taken:
        raise StackError(f"the port of --rdzv-endpoint {host}:{port_text} cannot be used: {taken}; choose another one")
    return "", (host, int(port_text))


def _taken(host: str, port: int) -> str:
    """Why nobody can listen there, empty when one can. A server that begins to speak NATS by then is no stranger."""
    deadline_s = time.monotonic() + GREETING_S
    while True:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
            return ""
        except OSError as error:
            if nats_problem(f"nats://{host}:{port}") is None:
                return ""
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline_s:
                return error.strerror or str(error)
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

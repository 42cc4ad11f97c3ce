"""Worker processes as the options want them, and the preparation of their nursery, told to the person."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from node_agent.adapters.launch_options import LaunchOptions
from node_agent.adapters.standby import DEFAULT_PRELOAD
from node_agent.adapters.terminal import Terminal
from node_agent.adapters.worker_processes import ProcessWorkers
from node_agent.application.control_ports import Announcer
from service_kit.ports import Clock


def worker_processes(
    options: LaunchOptions, *, clock: Clock, terminal: Terminal, nursery_log: Path | None
) -> ProcessWorkers:
    """Not started yet."""
    return ProcessWorkers(
        clock=clock,
        terminal=terminal,
        standby=options.standby,
        preload=(*DEFAULT_PRELOAD, *options.preload),
        nursery_log=nursery_log,
    )


async def prepare_workers(processes: ProcessWorkers, env: Mapping[str, str], announcer: Announcer) -> None:
    """Make the nursery ready, and say whether it is."""
    report = await processes.prepare(env)
    if report.notice:
        announcer.say(report.notice)
    elif report.ready:
        announcer.say(f"workers will be forked from a prepared process (ready after {report.took_s:.1f} s)")

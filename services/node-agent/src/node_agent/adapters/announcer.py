"""application.control_ports.Announcer on the terminal that the ranks' output goes to, so that lines never mix."""

from __future__ import annotations

from collections.abc import Mapping

from node_agent.adapters.terminal import Terminal
from node_agent.application.control_ports import Announcer
from node_agent.application.ports import WorkerProcesses


class TerminalAnnouncer:
    """The agent's own lines, marked as such by the terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def say(self, line: str) -> None:
        """Show one event; a line break in a foreign text must not make a second unmarked line."""
        for part in line.splitlines() or [""]:
            self._terminal.notice(part)


async def prepare_aloud(processes: WorkerProcesses, env: Mapping[str, str], announcer: Announcer) -> None:
    """Start the nursery, and say what became of it."""
    report = await processes.prepare(env)
    if report.notice:
        announcer.say(report.notice)
    elif report.ready:
        announcer.say(f"workers will be forked from a prepared process (ready after {report.took_s:.1f} s)")

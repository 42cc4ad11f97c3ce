"""application.control_ports.Announcer on the terminal that the ranks' output goes to, so that lines never mix."""

from __future__ import annotations

from node_agent.adapters.terminal import Terminal


class TerminalAnnouncer:
    """The agent's own lines, marked as such by the terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def say(self, line: str) -> None:
        """Show one event; a line break in a foreign text must not make a second unmarked line."""
        for part in line.splitlines() or [""]:
            self._terminal.notice(part)

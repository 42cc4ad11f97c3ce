"""Several taps on one output: each gets everything, and one that breaks costs the others nothing."""

from __future__ import annotations

from node_agent.application.control_ports import Announcer
from node_agent.application.output_tap import OutputPlace, OutputTap
from node_agent.domain.log_rule import LogStream


class EveryTap:
    """application.output_tap.OutputTap of several."""

    def __init__(self, taps: tuple[OutputTap, ...], announcer: Announcer) -> None:
        self._taps = taps
        self._announcer = announcer

    def take(self, place: OutputPlace, stream: LogStream, data: bytes) -> None:
        """See the port."""
        for tap in self._taps:
            try:
                tap.take(place, stream, data)
            except Exception as error:  # noqa: BLE001 - a bug in one watch must not blind the other
                self._drop(tap, error)

    def end(self, place: OutputPlace, stream: LogStream) -> None:
        """See the port."""
        for tap in self._taps:
            try:
                tap.end(place, stream)
            except Exception as error:  # noqa: BLE001 - as above
                self._drop(tap, error)

    def _drop(self, broken: OutputTap, error: Exception) -> None:
        self._taps = tuple(tap for tap in self._taps if tap is not broken)
        self._announcer.say(f"{type(broken).__name__} does not watch the ranks' output any more: {error!r}")

"""The watch over the logs is watched itself: a monitor that stopped looking must not look like a healthy job."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.application.log_ports import LogMonitorHealth
from node_agent.application.log_signals import LogSignals, Observation

CHECK = "log_monitor"
LAG_S_MAX = 1.0
"""One delivery of output that takes longer holds up the whole agent; healthy ones take milliseconds."""


class LogHealthReports:
    """Compares the watch's counts with those of the last look."""

    def __init__(
        self, health: Callable[[], LogMonitorHealth], signals: LogSignals, unreadable: Callable[[], Sequence[str]]
    ) -> None:
        self._health = health
        self._signals = signals
        self._unreadable = unreadable
        self._before = health()

    def look(self) -> None:
        """Report what is not as it should be, or that it is again."""
        now = self._health()
        problems = self._problems(now)
        self._before = now
        self._signals.observe(
            Observation(
                component=Component.AGENT,
                check=CHECK,
                health=Health.BAD if problems else Health.OK,
                says=" | ".join(kind for kind, _ in problems),
                detail="; ".join(sentence for _, sentence in problems) or "the watch over the logs is well",
                line="the watch over the logs: " + ("; ".join(s for _, s in problems)[:300] or "well again"),
                source="log_monitor",
                values={
                    "rules": now.rules,
                    "refused_rules": now.refused_rules,
                    "lines": now.lines,
                    "findings": now.findings,
                    "errors": now.errors,
                    "cut_lines": now.cut_lines,
                    "unusable_values": now.unusable_values,
                    "dropped_bytes": now.dropped_bytes,
                    "untold": self._signals.untold,
                    "lag_s_max": now.lag_s_max,
                    "busy_s": now.busy_s,
                },
            )
        )

    def _problems(self, now: LogMonitorHealth) -> list[tuple[str, str]]:
        before = self._before
        found = []
        unreadable = self._unreadable()
        if unreadable:
            found.append(("file", f"the rules in use are old, because {unreadable[0]}"))
        if now.refused_rules:
            found.append(("refused", f"{now.refused_rules} rules are refused and not used"))
        if now.errors > before.errors and now.last_error not in unreadable:
            found.append(("errors", f"{now.errors - before.errors} errors, the last one: {now.last_error}"))
        if now.lag_s_max > LAG_S_MAX and now.lag_s_max > before.lag_s_max:
            found.append(("lag", f"looking at one piece of output took {now.lag_s_max:.1f} s"))
        return found

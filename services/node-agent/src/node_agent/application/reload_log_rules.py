"""Log rules that change on disk are used without a restart: looked at every few seconds, and at once when told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from node_agent.application.control_ports import Announcer
from node_agent.application.feed_logs import LogFeed
from node_agent.application.log_ports import RefusedRule, RuleFile, RuleSource
from node_agent.application.log_signals import LogSignals
from node_agent.application.report_log_health import LogHealthReports
from node_agent.application.watch_logs import WatchLogs
from node_agent.domain.log_rule import LogRule

LOOK_S = 3.0
"""Between two looks at the files (one stat each, in a thread), and between two looks at the watch itself."""
LINES_TOLD_MAX = 10
"""Refusals and notices on the terminal; the rest is a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """Names, in the order of the files."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    @classmethod
    def between(cls, old: Sequence[LogRule], new: Sequence[LogRule]) -> RuleChange:
        """What a reload did."""
        before = {rule.name: rule for rule in old}
        after = {rule.name: rule for rule in new}
        return cls(
            added=tuple(name for name in after if name not in before),
            changed=tuple(name for name, rule in after.items() if before.get(name, rule) != rule),
            removed=tuple(name for name in before if name not in after),
        )

    def __str__(self) -> str:
        parts = (("added", self.added), ("changed", self.changed), ("removed", self.removed))
        return "; ".join(f"{verb}: {_listed(names)}" for verb, names in parts if names) or "no rule changed"


class LogRuleReload:
    """The log rules' own loop: files, held-back signals, the health of the watch."""

    def __init__(
        self,
        source: RuleSource,
        watch: WatchLogs,
        feed: LogFeed,
        signals: LogSignals,
        announcer: Announcer,
        *,
        look_s: float = LOOK_S,
    ) -> None:
        self._source = source
        self._watch = watch
        self._feed = feed
        self._signals = signals
        self._announcer = announcer
        self._look_s = look_s
        self._rules: tuple[LogRule, ...] = ()
        self._unreadable: tuple[str, ...] = ()
        self._now = asyncio.Event()
        self._health = LogHealthReports(watch.health, signals, lambda: self._unreadable)

    def begin(self) -> None:
        """Use the rules as they are now."""
        file = self._source.load()
        self._take(file)
        self._announcer.say(f"log rules: {len(self._rules)} in use, {len(file.refused)} refused")
        self._tell(file)
        self._health.look()

    def ask(self) -> None:
        """Read the files now, changed or not."""
        self._announcer.say("reading the log rules again")
        self._now.set()

    async def forever(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._look_s):
                    await self._now.wait()
            except TimeoutError:
                file = await asyncio.to_thread(self._source.reload)
            else:
                self._now.clear()
                file = await asyncio.to_thread(self._source.load)
            if file is not None:
                self._reload(file)
            self._health.look()
            self._signals.tick()

    def _reload(self, file: RuleFile) -> None:
        old = self._rules
        self._take(file)
        if file.error is None:
            self._announcer.say(
                f"log rules were read again: {len(self._rules)} in use; {RuleChange.between(old, self._rules)}"
            )
        self._tell(file)

    def _take(self, file: RuleFile) -> None:
        self._watch.use(file)
        if file.error is None:
            self._rules, self._unreadable = file.rules, ()
        else:
            self._unreadable = (str(file.error),)
        self._feed.arm()

    def _tell(self, file: RuleFile) -> None:
        if file.error is not None:
            self._announcer.say(f"{file.error}; the {len(self._rules)} rules in use stay")
        self._tell_some("refused: ", file.refused)
        self._tell_some("note: ", file.notices)

    def _tell_some(self, prefix: str, entries: Iterable[RefusedRule]) -> None:
        entries = list(entries)
        for entry in entries[:LINES_TOLD_MAX]:
            self._announcer.say(f"{prefix}{entry}")
        if len(entries) > LINES_TOLD_MAX:
            self._announcer.say(f"{prefix}{len(entries) - LINES_TOLD_MAX} more")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")

"""Puts the log rules together: files and RE2 on one side, the running ranks on the other. Main switches it on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from signal import SIGHUP, Signals

from node_agent.adapters.log_engine import RuleMatcher
from node_agent.adapters.log_rule_files import LogRuleFiles
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.feed_logs import LogFeed
from node_agent.application.log_signals import LogSignals
from node_agent.application.outgoing import Outgoing
from node_agent.application.reload_log_rules import LogRuleReload
from node_agent.application.report_log_findings import LogFindingReports, TrainingReports
from node_agent.application.report_rank_faults import RankFaultReporter
from node_agent.application.watch_logs import WatchLogs
from service_kit.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWatch:
    """The parts that others need: the tap for the output, and the rules' reload."""

    watch: WatchLogs
    feed: LogFeed
    reload: LogRuleReload
    signals: LogSignals

    def states(self) -> dict[int, str]:
        """What the rules think of each rank, by global rank."""
        return {rank: found.state.value for rank, found in self.watch.rank_states().items()}

    def run(self, stack: AsyncExitStack) -> None:
        """Begin; ends with the stack."""
        self.reload.begin()
        loop = asyncio.create_task(self.reload.forever())

        async def end() -> None:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
            self.feed.close()

        loop.add_done_callback(_show)
        stack.push_async_callback(end)


def log_watch(
    paths: Sequence[Path],
    life: AgentLife,
    outgoing: Outgoing,
    faults: RankFaultReporter,
    training: TrainingReports,
    clock: Clock,
    announcer: Announcer,
) -> LogWatch:
    """Wire the watch; it sees nothing before its feed gets the output."""
    signals = LogSignals(life.identity, outgoing, clock, announcer)
    findings = LogFindingReports(life, faults, signals, training)
    watch = WatchLogs(clock=clock, reports=findings, make_matcher=RuleMatcher)
    feed = LogFeed(watch, findings, clock)
    life.watches.append(feed)
    reload = LogRuleReload(LogRuleFiles(paths), watch, feed, signals, announcer)
    return LogWatch(watch=watch, feed=feed, reload=reload, signals=signals)


def has_terminal() -> bool:
    """Whether there is a terminal that has not been hung up."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError:
        return False
    return True


def on_hangup(reload: Callable[[], None], leave: Callable[[Signals], None]) -> Callable[[], None]:
    """SIGHUP has two meanings: a person asks for the rules to be read again, or the terminal is gone.

    Called at the start. An agent that had a terminal and has none any more leaves, as it does without log rules.
    """
    had_terminal = has_terminal()

    def handle() -> None:
        if had_terminal and not has_terminal():
            leave(SIGHUP)
        else:
            reload()

    return handle


def _show(loop: asyncio.Task[None]) -> None:
    """A loop that broke is a bug; the loop's handler shows it with its traceback."""
    if not loop.cancelled() and loop.exception() is not None:
        loop.get_loop().call_exception_handler(
            {"message": "the log rules' loop broke", "exception": loop.exception(), "task": loop}
        )

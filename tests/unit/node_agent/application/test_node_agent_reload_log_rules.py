"""Rules change under a running job, the person hears what changed, and the watch's own health is a signal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from agent_fakes import Node

from fault_contracts.health import Component, SignalObserved
from fault_contracts.payload import Health
from node_agent.adapters.log_engine import RuleMatcher
from node_agent.adapters.log_rules_yaml import parse_rules
from node_agent.application.feed_logs import LogFeed
from node_agent.application.log_ports import LogMonitorHealth, RefusedRule, RuleFile
from node_agent.application.log_signals import LogSignals
from node_agent.application.reload_log_rules import LogRuleReload
from node_agent.application.report_log_findings import LogFindingReports
from node_agent.application.report_log_health import LogHealthReports
from node_agent.application.watch_logs import WatchLogs

pytestmark = pytest.mark.asyncio

BAD = RefusedRule(file="rules.yaml", line=3, rule="spike", reason="logPattern: missing )")
GONE = RefusedRule(file="rules.yaml", line=0, rule="", reason="cannot be read: No such file or directory")


def rules(**patterns: str) -> RuleFile:
    items = "".join(f"  - {{name: {n}, kind: fault, logPattern: '{p}'}}\n" for n, p in patterns.items())
    return parse_rules(f"rules:\n{items}".encode(), "rules.yaml")


class Source:
    """application.log_ports.RuleSource whose file the test holds."""

    def __init__(self, file: RuleFile) -> None:
        self.file = file
        self.news: RuleFile | None = None

    def load(self) -> RuleFile:
        self.file, self.news = self.news or self.file, None
        return self.file

    def reload(self) -> RuleFile | None:
        return None if self.news is None else self.load()


class Reloading:
    """A node with rules that can be read again."""

    def __init__(self, tmp_path: Path, file: RuleFile, look_s: float) -> None:
        self.node = Node(tmp_path)
        self.source = Source(file)
        signals = LogSignals(self.node.life.identity, self.node.outgoing, self.node.clock, self.node)
        findings = LogFindingReports(self.node.life, self.node.faults, signals, self.node.relay)
        self.watch = WatchLogs(clock=self.node.clock, reports=findings, make_matcher=RuleMatcher)
        feed = LogFeed(self.watch, findings, self.node.clock)
        self.reload = LogRuleReload(self.source, self.watch, feed, signals, self.node, look_s=look_s)

    async def said(self, part: str) -> str:
        async with asyncio.timeout(20):
            while True:
                found = [line for line in self.node.said if part in line]
                if found:
                    return found[-1]
                await asyncio.sleep(0.01)


@asynccontextmanager
async def reloading(tmp_path: Path, file: RuleFile, *, look_s: float = 0.01) -> AsyncIterator[Reloading]:
    on = Reloading(tmp_path, file, look_s)
    on.reload.begin()
    loop = asyncio.create_task(on.reload.forever())
    yield on
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


async def test_the_start_says_what_is_used_and_what_is_refused(tmp_path: Path) -> None:
    async with reloading(tmp_path, replace(rules(a="aaa"), refused=(BAD,) * 12)) as on:
        assert on.node.said[0] == "log rules: 1 in use, 12 refused"
        assert on.node.said[1] == "refused: rules.yaml:3: spike: logPattern: missing )"
        assert on.node.said[11] == "refused: 2 more"


async def test_a_change_on_disk_is_used_and_told(tmp_path: Path) -> None:
    async with reloading(tmp_path, rules(a="aaa", b="bbb")) as on:
        on.source.news = rules(b="other", c="ccc")
        line = await on.said("were read again")
        assert line == "log rules were read again: 2 in use; added: c; changed: b; removed: a"
        assert on.watch.health().rules == 2


async def test_a_person_who_asks_need_not_wait_for_the_next_look(tmp_path: Path) -> None:
    async with reloading(tmp_path, rules(a="aaa"), look_s=3_600.0) as on:
        on.reload.ask()
        assert (await on.said("were read again")).endswith("no rule changed")


async def test_a_file_that_is_gone_leaves_the_rules_and_is_a_signal(tmp_path: Path) -> None:
    async with reloading(tmp_path, rules(a="aaa")) as on:
        on.source.news = RuleFile(error=GONE)
        await on.said("the 1 rules in use stay")
        await on.said("the watch over the logs: the rules in use are old")
        assert on.watch.health().rules == 1
        [signal] = [r for r in await on.node.reports_from() if isinstance(r, SignalObserved)]
        assert (signal.check, signal.component, signal.health) == ("log_monitor", Component.AGENT, Health.BAD)
        on.node.clock.at_s = 20.0
        on.source.news = rules(a="aaa")
        assert await on.said("the watch over the logs: well again")


WELL = LogMonitorHealth(
    rules=5,
    refused_rules=0,
    lines=0,
    bytes=0,
    hits=0,
    findings=0,
    cut_lines=0,
    unusable_values=0,
    dropped_bytes=0,
    errors=0,
    last_error="",
    busy_s=0.0,
    lag_s_max=0.01,
)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"errors": 2, "last_error": "rank 3 stdout: boom"}, "2 errors, the last one: rank 3 stdout: boom"),
        ({"lag_s_max": 2.5}, "took 2.5 s"),
        ({"refused_rules": 3}, "3 rules are refused"),
    ],
)
async def test_what_is_wrong_with_the_watch_is_told_and_so_is_its_end(
    tmp_path: Path, change: dict[str, object], part: str
) -> None:
    node = Node(tmp_path)
    now = [WELL]
    signals = LogSignals(node.life.identity, node.outgoing, node.clock, node)
    reports = LogHealthReports(lambda: now[0], signals, lambda: ())
    reports.look()
    now[0] = replace(WELL, **change)  # type: ignore[arg-type]
    reports.look()
    if "refused_rules" in change:
        now[0] = WELL
    for _ in range(8):
        node.clock.at_s += 5.0
        reports.look()
        signals.tick()
    told = [report for report in await node.reports_from() if isinstance(report, SignalObserved)]
    assert [signal.health for signal in told] == [Health.BAD, Health.OK, Health.OK, Health.OK]
    assert part in told[0].detail
    assert told[0].source == "log_monitor"

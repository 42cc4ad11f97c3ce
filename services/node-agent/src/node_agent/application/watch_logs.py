"""Watches the output of the ranks of this node by rules: bytes in; findings, steps and checkpoints out.

The shell delivers output as it reads it, and calls `tick` at `next_deadline_s`: one exact timer for all rules and
ranks, no polling. A failure in here costs a finding and is counted in `health`; it never reaches the workers' output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from node_agent.application.log_ports import (
    LogMatcher,
    LogMonitorHealth,
    LogReports,
    MatcherFactory,
    RuleFile,
)
from node_agent.application.log_teller import LogTeller
from node_agent.application.rank_log import Evaluator, RankLog, StreamView
from node_agent.domain.line_splitter import Block
from node_agent.domain.log_rule import CAPTURING_KINDS, LogRule, LogStream
from node_agent.domain.log_state import LineSeen, RankLogState, RuleState, combine
from service_kit.ports import Clock
from training_topology.identity import LocalRank, Rank


class WatchLogs:
    """All ranks of one node. Every method is called on the event loop and returns at once."""

    def __init__(self, *, clock: Clock, reports: LogReports, make_matcher: MatcherFactory) -> None:
        self._clock = clock
        self._make_matcher = make_matcher
        self._rules: tuple[LogRule, ...] = ()
        self._ranks: dict[Rank, RankLog] = {}
        self._node: dict[int, Evaluator] = {}
        """Start cut-offs that any rank can meet, by index of the rule."""
        self._matchers: dict[tuple[int, ...], LogMatcher] = {}
        self._deadline_s: float | None = None
        """No evaluator is due before it; may be early, since a line moves its rule's deadline away."""
        self._suspended_s = 0.0
        self._suspended_since_s: float | None = None
        self._teller = LogTeller(clock=clock, reports=reports)
        self._tally = self._teller.tally

    # ---------------------------------------------------------------------------------------- what is watched

    def use(self, file: RuleFile) -> None:
        """Judge by the rules of a file from now on; a file that cannot be used leaves the rules as they are.

        Rules that did not change keep what they have seen. A rule that is new to a running rank does not expect the
        line of its start any more.
        """
        if file.error is not None:
            self._teller.fail(str(file.error))
            return
        self._tally.refused_rules = len(file.refused)
        now_s = self._now_s()
        old_rules, self._rules = self._rules, file.rules
        self._matchers.clear()
        for log in self._ranks.values():
            log.judge_by(file.rules, now_s, known={old_rules[i]: each for i, each in log.evaluators.items()})
            self._view(log)
        kept = {old_rules[i]: each for i, each in self._node.items()}
        self._node = {i: kept[rule] for i, rule in enumerate(file.rules) if rule in kept}
        self._find_deadline()

    def start(self, ranks: Mapping[Rank, LocalRank], *, continuing: Collection[Rank] = ()) -> None:
        """Begin a watch on exactly these ranks; what was seen before is forgotten.

        Args:
            ranks: the ranks of this node and their local ranks.
            continuing: ranks whose process lives on (in-process restart): their streams go on where they are.
        """
        now_s = self._now_s()
        # By local rank: a process that goes on in place may get another rank.
        before = {log.local_rank: log for log in self._ranks.values()}
        self._ranks = {}
        for rank, local_rank in ranks.items():
            log = RankLog(rank=rank, local_rank=local_rank)
            if rank in continuing and local_rank in before:
                log.splitters = before[local_rank].splitters
            self._begin(log, now_s)
        self._node = {
            index: Evaluator(rule=part, rank=None, state=RuleState(since_s=now_s))
            for index, rule in enumerate(self._rules)
            if (part := rule.for_node()) is not None
            and any(rule.selector.selects(rank, local_rank) for rank, local_rank in ranks.items())
        }
        self._find_deadline()

    def renew(self, rank: Rank, local_rank: LocalRank) -> None:
        """One rank was replaced: it is judged anew; the others, and the node's start, are not."""
        self._begin(RankLog(rank=rank, local_rank=local_rank), self._now_s())
        self._find_deadline()

    def leave(self, rank: Rank) -> None:
        """A rank ended: no line of it is expected any more."""
        if self._ranks.pop(rank, None) is not None:
            self._find_deadline()

    def stop(self) -> None:
        """The ranks are being stopped: silence means nothing any more."""
        self._ranks = {}
        self._node = {}
        self._deadline_s = None

    def suspend(self) -> None:
        """The ranks are held between two stages: this time is not held against them."""
        if self._suspended_since_s is None:
            self._suspended_since_s = self._clock.monotonic_s()

    def resume(self) -> None:
        """The ranks go on."""
        if self._suspended_since_s is not None:
            self._suspended_s += self._clock.monotonic_s() - self._suspended_since_s
            self._suspended_since_s = None

    # ------------------------------------------------------------------------------------------ what comes in

    def take(self, rank: Rank, stream: LogStream, data: bytes) -> None:
        """Look at some output of a rank, cut anywhere."""
        log = self._ranks.get(rank)
        if log is None:
            self._tally.dropped_bytes += len(data)
            return
        splitter = log.splitters[stream]
        lines, cut = splitter.lines, splitter.cut_lines
        self._look(log, stream, splitter.feed(data))
        self._tally.bytes += len(data)
        self._tally.lines += splitter.lines - lines
        self._tally.cut_lines += splitter.cut_lines - cut

    def end(self, rank: Rank, stream: LogStream) -> None:
        """The stream ended: what is left without a newline is a line too."""
        log = self._ranks.get(rank)
        if log is not None:
            lines = log.splitters[stream].lines
            self._look(log, stream, log.splitters[stream].flush())
            self._tally.lines += log.splitters[stream].lines - lines

    @property
    def next_deadline_s(self) -> float | None:
        """When to call `tick`, on the clock's monotonic scale; None while nothing is waited for."""
        if self._deadline_s is None or self._suspended_since_s is not None:
            return None
        return self._deadline_s + self._suspended_s

    def tick(self) -> None:
        """Tell what is overdue."""
        if self._suspended_since_s is not None:
            return
        now_s = self._now_s()
        for evaluator in self._evaluators():
            due_s = evaluator.deadline_s
            if due_s is not None and due_s <= now_s:
                verdict = evaluator.pass_time(now_s)
                if verdict is not None:
                    self._teller.tell(evaluator, verdict, by_line=False)
        self._find_deadline()

    # ------------------------------------------------------------------------------------------- what is known

    def rank_states(self) -> dict[Rank, RankLogState]:
        """All rules of each rank together."""
        return {
            rank: combine((each.rule, each.state) for each in log.evaluators.values())
            for rank, log in self._ranks.items()
        }

    def node_state(self) -> RankLogState:
        """The start cut-offs that any rank of the node can meet."""
        return combine((each.rule, each.state) for each in self._node.values())

    def health(self) -> LogMonitorHealth:
        """How the watch itself is."""
        return self._teller.health(rules=len(self._rules))

    # ------------------------------------------------------------------------------------------------- inside

    def _begin(self, log: RankLog, now_s: float) -> None:
        log.judge_by(self._rules, now_s)
        self._view(log)
        self._ranks[log.rank] = log

    def _view(self, log: RankLog) -> None:
        """Give each stream of a rank its matcher; ranks with the same rules share one."""
        log.views = {}
        for stream in LogStream:
            indices = tuple(i for i, rule in enumerate(self._rules) if log.selects(rule, stream))
            if not indices:
                continue
            if indices not in self._matchers:
                self._matchers[indices] = self._make_matcher([self._rules[i] for i in indices])
            log.views[stream] = StreamView(rules=indices, matcher=self._matchers[indices])

    def _look(self, log: RankLog, stream: LogStream, blocks: Sequence[Block]) -> None:
        view = log.views.get(stream)
        if view is None or not blocks:
            return
        began_s = self._clock.monotonic_s()
        now_s = self._now_s()
        for block in blocks:
            try:
                for which, seen in view.matcher.match_block(block.data):
                    self._tally.hits += 1
                    index = view.rules[which]
                    self._weigh(log.evaluators[index], index, seen, stream, block.offset + seen.offset, now_s)
            except Exception as error:  # noqa: BLE001 - the output's way to file and terminal must go on
                self._teller.fail(f"rank {log.rank} {stream}, from byte {block.offset}: {error!r}")
        took_s = self._clock.monotonic_s() - began_s
        self._tally.busy_s += took_s
        self._tally.lag_s_max = max(self._tally.lag_s_max, took_s)

    def _weigh(
        self, evaluator: Evaluator, index: int, seen: LineSeen, stream: LogStream, offset: int, now_s: float
    ) -> None:
        """One line for one rule: on its rank, and on the node while that still waits."""
        rule, before = evaluator.rule, evaluator.state
        verdict = evaluator.see(seen, stream, offset, now_s)
        if verdict is not None:
            self._teller.tell(evaluator, verdict, by_line=True)
        if rule.metric is not None:
            self._tally.unusable_values += evaluator.state.metric.unusable - before.metric.unusable
        elif rule.kind in CAPTURING_KINDS and seen.matched and before.active:
            self._teller.capture(evaluator, seen)
        if rule.has_line_timers:
            self._expect(evaluator)
        node = self._node.get(index)
        if node is not None and node.state.active and node.state.matches == 0:
            verdict = node.see(seen, stream, offset, now_s)
            if verdict is not None:
                self._teller.tell(node, verdict, by_line=True)

    def _now_s(self) -> float:
        """Time that stands still while the ranks are suspended."""
        suspended_since_s = self._suspended_since_s
        return (self._clock.monotonic_s() if suspended_since_s is None else suspended_since_s) - self._suspended_s

    def _evaluators(self) -> Iterator[Evaluator]:
        yield from self._node.values()
        for log in self._ranks.values():
            yield from log.evaluators.values()

    def _expect(self, evaluator: Evaluator) -> None:
        due_s = evaluator.deadline_s
        if due_s is not None and (self._deadline_s is None or due_s < self._deadline_s):
            self._deadline_s = due_s

    def _find_deadline(self) -> None:
        self._deadline_s = None
        for evaluator in self._evaluators():
            self._expect(evaluator)

"""The watch over one rank: its two streams, and what each rule thinks of it. Used by watch_logs only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from node_agent.application.log_ports import LogMatcher
from node_agent.domain.line_splitter import LineSplitter
from node_agent.domain.log_rule import LogRule, LogStream
from node_agent.domain.log_state import LineSeen, LogVerdict, RuleState, TimePassed, next_deadline_s, step
from training_topology.identity import LocalRank, Rank


@dataclass(slots=True, kw_only=True)
class Evaluator:
    """One rule on one rank, or (rank None) on the node: the part of it that is judged there, and its state."""

    rule: LogRule
    rank: Rank | None
    state: RuleState
    line: bytes = b""
    """The last one that matched."""
    stream: LogStream | None = None
    offset: int | None = None

    def see(self, seen: LineSeen, stream: LogStream, offset: int, now_s: float) -> LogVerdict | None:
        """Weigh a line that begins at this place of the stream."""
        if seen.matched:
            self.line, self.stream, self.offset = seen.line, stream, offset
        self.state, verdict = step(self.rule, self.state, seen, now_s=now_s)
        return verdict

    def pass_time(self, now_s: float) -> LogVerdict | None:
        """Look at the clock."""
        self.state, verdict = step(self.rule, self.state, TimePassed(), now_s=now_s)
        return verdict

    @property
    def deadline_s(self) -> float | None:
        """When the clock decides, if no line comes before."""
        return next_deadline_s(self.rule, self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamView:
    """The rules that look at one stream of one rank, with the matcher made for them."""

    rules: tuple[int, ...]
    """Index in the whole list, by index in the matcher's."""
    matcher: LogMatcher


@dataclass(slots=True, kw_only=True)
class RankLog:
    """One rank.

    Attributes:
        evaluators: by index of the rule in the whole list; rules that do not select the rank have none.
        views: a stream without rules has none.
    """

    rank: Rank
    local_rank: LocalRank
    splitters: dict[LogStream, LineSplitter] = field(
        default_factory=lambda: {stream: LineSplitter() for stream in LogStream}
    )
    evaluators: dict[int, Evaluator] = field(default_factory=dict)
    views: dict[LogStream, StreamView] = field(default_factory=dict)

    def selects(self, rule: LogRule, stream: LogStream) -> bool:
        """Whether a rule looks at this stream of this rank."""
        return stream in rule.streams and rule.selector.selects(self.rank, self.local_rank)

    def judge_by(
        self, rules: Sequence[LogRule], now_s: float, *, known: Mapping[LogRule, Evaluator] | None = None
    ) -> None:
        """Judge by these rules from now on.

        Args:
            rules: the whole list.
            now_s: when the watch of new rules begins.
            known: what the rules so far have seen of this running rank, kept for those that did not change; None at
                the start of the rank.
        """
        self.evaluators = {
            index: (known or {}).get(rule)
            or Evaluator(rule=rule.for_rank(is_late=known is not None), rank=self.rank, state=RuleState(since_s=now_s))
            for index, rule in enumerate(rules)
            if rule.selector.selects(self.rank, self.local_rank)
        }

"""What the watch over the ranks' output needs from outside, and what it tells: Protocols and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from node_agent.domain.log_rule import LogRule, LogStream, RuleAction
from node_agent.domain.log_state import LineSeen, LogState
from training_topology.identity import Rank

EXCERPT_CHARS_MAX = 512
"""Of a line, in a finding: enough to read it, little enough to send and store."""
PATH_CHARS_MAX = 4_096
"""Linux's PATH_MAX; a longer capture is not a path."""


LineHit = tuple[int, LineSeen]
"""Index of a rule in the list the matcher was made for, and the line that concerns it."""


class LogMatcher(Protocol):
    """Finds the lines of a block that concern a fixed list of rules, in linear time."""

    def match_block(self, data: bytes) -> Sequence[LineHit]:
        """Hits in the order of the lines, and in the order of the rules on one line; data holds whole lines."""
        ...


MatcherFactory = Callable[[Sequence[LogRule]], LogMatcher]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRule:
    """A rule that is not used, and why. `line` counts from 1; 0 when the whole file is meant."""

    file: str
    line: int
    rule: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.rule}: {self.reason}" if self.rule else f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """What one reading of a rule file gave.

    Attributes:
        rules: in the order of the file.
        refused: rules that are not used.
        notices: rules that are used, but not quite as their author may think.
        error: why the file as a whole cannot be used; `rules` is then empty.
    """

    rules: tuple[LogRule, ...] = ()
    refused: tuple[RefusedRule, ...] = ()
    notices: tuple[RefusedRule, ...] = ()
    error: RefusedRule | None = None


class RuleSource(Protocol):
    """Where the rules come from."""

    def load(self) -> RuleFile:
        """Read them now."""
        ...

    def reload(self) -> RuleFile | None:
        """Read them when they changed since the last reading; None when they did not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFinding:
    """A rule went bad on a rank, or is good again (`state` is then HEALTHY).

    Attributes:
        rule_id: `LogFault_<rule>`, `LogHang_<rule>`, `LogSlow_<rule>` or `LogHealthy_<rule>`.
        rank: None when the rule speaks of the node: no selected rank printed the expected line.
        stream: None when the clock and not a line decided.
        value: the captured number.
        excerpt: of the line, undecodable bytes escaped; the last line that matched when the clock decided.
        offset: place of that line in the rank's stream, in bytes; None without a line.
        suppressed: reports held back by the cool-down since the last one.
    """

    rule: str
    rule_id: str
    action: RuleAction
    rank: Rank | None
    stream: LogStream | None
    state: LogState
    sentence: str
    value: float | None
    excerpt: str
    offset: int | None
    suppressed: int
    observed_at: datetime


class LogProgress(NamedTuple):
    """A progress rule read a step."""

    rule: str
    rank: Rank
    step: int


class LogCheckpoint(NamedTuple):
    """A checkpoint rule read that a checkpoint is saved; `path` is empty when the line does not tell it."""

    rule: str
    rank: Rank
    step: int
    path: str
    kind: str


class LogReports(Protocol):
    """Who is told. Called on the event loop while the output is being read: must not block."""

    def on_log_finding(self, finding: LogFinding) -> None:
        """A rule changed its mind about a rank."""
        ...

    def on_log_progress(self, progress: LogProgress) -> None:
        """A step, read from a line."""
        ...

    def on_log_checkpoint(self, checkpoint: LogCheckpoint) -> None:
        """A checkpoint, read from a line."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMonitorHealth:
    """How the watch itself is; a watch that stopped looking is not a healthy job.

    Attributes:
        rules: in use.
        refused_rules: of the last rule file.
        hits: lines that concerned a rule.
        cut_lines: lines of which the part behind LINE_BYTES_MAX was dropped while the line was still coming.
        unusable_values: captures that were no number where one was needed.
        dropped_bytes: output of ranks or streams that are not watched.
        errors: blocks that could not be looked at, or reports that were not taken; `last_error` says why.
        busy_s: time spent looking, in all.
        lag_s_max: longest time one delivery of output took: how late a finding in it could be.
    """

    rules: int
    refused_rules: int
    lines: int
    bytes: int
    hits: int
    findings: int
    cut_lines: int
    unusable_values: int
    dropped_bytes: int
    errors: int
    last_error: str
    busy_s: float
    lag_s_max: float

"""A watched node for the tests of watch_logs: a clock moved by hand, ears, and HyperPod's documented rules."""

from datetime import UTC, datetime, timedelta

from node_agent.adapters.log_engine import RuleMatcher
from node_agent.adapters.log_rules_yaml import parse_rules
from node_agent.application.log_ports import LogCheckpoint, LogFinding, LogProgress
from node_agent.application.watch_logs import WatchLogs
from node_agent.domain.log_rule import LogStream
from training_topology.identity import LocalRank, Rank

OUT, ERR = LogStream.STDOUT, LogStream.STDERR

JOB_START = "- {name: JobStart, logPattern: '.*Experiment configuration.*', expectedStartCutOffInSeconds: 120}\n"
HANGING = (
    r"- {name: JobHangingDetection, logPattern: '.*\[Epoch 0 Batch \d+.*\"training_loss_step\": (\d+(\.\d+)?).*', "
    "expectedRecurringFrequencyInSeconds: 300, expectedStartCutOffInSeconds: 600}\n"
)
SPIKE = (
    r"- {name: LossSpikeDetection, logPattern: '.*training_loss_step (\d+(?:\.\d+)?).*', "
    "metricThreshold: 2.0, operator: gt, metricEvaluationDataPoints: 5}\n"
)
TFLOPS = (
    "- {name: TFLOPs, logPattern: '.* (.+)TFLOPs.*', expectedRecurringFrequencyInSeconds: 5, "
    "metricThreshold: 100, operator: lt, metricEvaluationDataPoints: 5}\n"
)
OOM = "- {name: GPU Error, logPattern: '.*RuntimeError.*out of memory.*', faultOnMatch: true}\n"


class HandClock:
    """service_kit.ports.Clock, moved by hand."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.at_s)

    def monotonic_s(self) -> float:
        return self.at_s

    async def sleep(self, duration_s: float) -> None:
        raise AssertionError("the watch does not sleep")


class Heard:
    """application.log_ports.LogReports that remembers."""

    def __init__(self) -> None:
        self.findings: list[LogFinding] = []
        self.progress: list[LogProgress] = []
        self.checkpoints: list[LogCheckpoint] = []

    def on_log_finding(self, finding: LogFinding) -> None:
        self.findings.append(finding)

    def on_log_progress(self, progress: LogProgress) -> None:
        self.progress.append(progress)

    def on_log_checkpoint(self, checkpoint: LogCheckpoint) -> None:
        self.checkpoints.append(checkpoint)

    @property
    def ids(self) -> list[tuple[str, int | None]]:
        return [(finding.rule_id, finding.rank) for finding in self.findings]


class Watched:
    """A watch on a node, with its clock and what it told."""

    def __init__(self, rules: str, *, ranks: int = 2, first_rank: int = 0) -> None:
        self.clock = HandClock()
        self.heard = Heard()
        self.watch = WatchLogs(clock=self.clock, reports=self.heard, make_matcher=RuleMatcher)
        self.use(rules)
        self.ranks = {Rank(first_rank + local): LocalRank(local) for local in range(ranks)}
        self.watch.start(self.ranks)

    def use(self, rules: str) -> None:
        file = parse_rules(rules.encode(), "rules.yaml")
        assert (file.error, file.refused) == (None, ())
        self.watch.use(file)

    def say(self, text: str | bytes, rank: int = 0, stream: LogStream = OUT) -> None:
        self.watch.take(Rank(rank), stream, (text.encode() if isinstance(text, str) else text) + b"\n")

    def pass_to(self, at_s: float) -> None:
        """Let time pass as the shell does: tick at every deadline on the way."""
        while (due_s := self.watch.next_deadline_s) is not None and due_s <= at_s:
            self.clock.at_s = max(self.clock.at_s, due_s)
            self.watch.tick()
        self.clock.at_s = at_s

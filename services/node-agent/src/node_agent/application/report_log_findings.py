"""What the log rules found becomes signals, faults of ranks, steps and checkpoints, as the rule's action says."""

from __future__ import annotations

from typing import Protocol, assert_never

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.application.agent_life import AgentLife
from node_agent.application.log_ports import LogCheckpoint, LogFinding, LogProgress
from node_agent.application.log_signals import LogSignals, Observation
from node_agent.application.report_rank_faults import RankFault, RankFaultReporter, ReportOutcome, Suspected
from node_agent.domain.log_rule import RuleAction
from node_agent.domain.log_state import LogState
from training_topology.identity import LocalRank, Rank

CHECK = "log_rule"
EARLY_FAULTS_MAX = 64
"""Faults found while the node's last ranks are still being started; a rank needs one."""


class TrainingReports(Protocol):
    """Where steps and checkpoints go, whoever says them (relay_worker_reports)."""

    def tells_steps(self, local_rank: LocalRank) -> bool:
        """The rank reports its steps over worker-link."""

    def finish_step(self, local_rank: LocalRank, step: int, *, topology_version: int) -> None:
        """A rank finished a step."""

    def confirm_checkpoint(
        self, rank: Rank, *, topology_version: int, step: int, path: str, kind: str, writers: int | None
    ) -> None:
        """A rank's part of a checkpoint is durable."""


class LogFindingReports:
    """application.log_ports.LogReports."""

    def __init__(
        self,
        life: AgentLife,
        faults: RankFaultReporter,
        signals: LogSignals,
        training: TrainingReports,
    ) -> None:
        self._life = life
        self._faults = faults
        self._signals = signals
        self._training = training
        self._is_muted = True
        self._early: list[RankFault] = []

    def begin(self) -> None:
        """A generation begins."""
        self._is_muted = False
        self._early.clear()
        self._signals.forget_ranks("the ranks were started anew")

    def catch_up(self) -> None:
        """Every rank runs: what was found in the meantime can be told."""
        early, self._early = self._early, []
        for fault in early:
            self._faults.report(fault)

    def mute(self) -> None:
        """The ranks are being stopped: findings are no news; steps and checkpoints still are."""
        self._is_muted = True
        self._early.clear()

    def on_log_finding(self, finding: LogFinding) -> None:
        """See the port."""
        if self._is_muted:
            return
        match finding.action:
            case RuleAction.OBSERVE:
                # Stored with the node's signals; unknown raises no condition, and nobody is woken.
                self._signal(finding, Health.UNKNOWN, line="")
            case RuleAction.ALERT:
                whose = "this node" if finding.rank is None else f"rank {finding.rank}"
                self._signal(finding, Health.BAD, line=f"{whose}: {finding.rule_id}: {finding.sentence[:300]}")
            case RuleAction.FAULT:
                if finding.state is not LogState.HEALTHY:
                    self._fault(finding)
            case _:
                assert_never(finding.action)

    def on_log_progress(self, progress: LogProgress) -> None:
        """See the port."""
        group = self._life.group
        if group is None:
            return
        local_rank = LocalRank(progress.rank - group.first_rank)
        if not self._training.tells_steps(local_rank):
            self._training.finish_step(local_rank, progress.step, topology_version=group.topology_version)

    def on_log_checkpoint(self, checkpoint: LogCheckpoint) -> None:
        """See the port."""
        group = self._life.group
        if group is None:
            return
        self._training.confirm_checkpoint(
            checkpoint.rank,
            topology_version=group.topology_version,
            step=checkpoint.step,
            path=checkpoint.path,
            kind=checkpoint.kind,
            writers=None,
        )

    def _signal(self, finding: LogFinding, bad: Health, *, line: str) -> None:
        values = {"suppressed": float(finding.suppressed)}
        if finding.value is not None:
            values["metric"] = finding.value
        excerpt = f": {finding.excerpt}" if finding.excerpt else ""
        self._signals.observe(
            Observation(
                component=Component.LOG,
                # The rule's name and not the finding's: that differs between bad and good, and good has to clear bad.
                check=f"LogRule_{finding.rule}",
                rank=finding.rank,
                health=Health.OK if finding.state is LogState.HEALTHY else bad,
                says=finding.state.value,
                detail=f"{finding.rule_id}: {finding.sentence}{excerpt}",
                line=line,
                values=values,
            )
        )

    def _fault(self, finding: LogFinding) -> None:
        place = "" if finding.stream is None else f"{finding.stream} from byte {finding.offset}: "
        suspects: tuple[Suspected, ...] = ()
        if finding.rank is not None:
            suspects = (Suspected(rank=finding.rank, evidence=f"{place}{finding.excerpt}"),)
        fault = RankFault(
            check=CHECK,
            rule_id=finding.rule_id,
            suspects=suspects,
            reason=finding.sentence,
            files={"excerpt.txt": f"{finding.rule_id}\n{finding.sentence}\n{place}{finding.excerpt}\n"},
        )
        outcome = self._faults.report(fault)
        if outcome is ReportOutcome.NOT_STARTED and len(self._early) < EARLY_FAULTS_MAX:
            self._early.append(fault)

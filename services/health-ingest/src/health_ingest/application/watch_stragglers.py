"""Step times of all nodes of a gang → the condition `straggler` of a rank: a problem that is shown, and no more.

What was reported is kept in memory only. After a restart the windows are counted anew, and which ranks were told to be
slow is read from their conditions. Several replicas each hear every report and find the same; compare-and-set lets one
of them say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fault_contracts.health import Component
from fault_contracts.ids import derived_id
from fault_contracts.payload import Health
from fault_contracts.recovery import JobEnded
from fault_contracts.step_times import STRAGGLER_CHECK, StepTimesReported
from health_ingest.application.advance_condition import AdvanceCondition, Decide
from health_ingest.application.ports import ConditionRecords
from health_ingest.domain.condition import Condition, Phase, Step
from health_ingest.domain.gang_pace import GangFinding, GangPace
from health_ingest.domain.observe import observe
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.signal import Entity, Signal
from health_ingest.domain.straggler import SlowKind, StragglerPolicy
from service_kit.errors import ContractViolation, PermanentError, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Clock, Delivery
from training_topology.identity import Rank

JOBS_MAX = 1_000
RANKS_MAX = 16_384
"""Over all jobs: comparing so many takes some tenths of a second of the loop that also takes in deaths of ranks. A job
beyond either limit is not watched, and the log says so."""
SILENT_S = 3_600.0
"""A job without a window for so long is forgotten: ten steps of five minutes each would still be heard."""
SWEEP_S = 10.0

_log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Watched:
    gang: GangPace
    heard_s: float


class WatchStragglers:
    """Hears StepTimesReported and JobEnded, at most once each. It owns the retry of what it found."""

    def __init__(
        self,
        *,
        advance: AdvanceCondition,
        records: ConditionRecords,
        clock: Clock,
        policy: StragglerPolicy,
        conditions: ConditionPolicy,
    ) -> None:
        self._advance = advance
        self._records = records
        self._clock = clock
        self._policy = policy
        self._conditions = conditions
        self._jobs: dict[str, _Watched] = {}
        self._owed: dict[str, Signal] = {}
        self._full_told = False

    async def heard(self, delivery: Delivery) -> None:
        """Take one message in."""
        payload, cause_id = delivery.envelope.data, delivery.envelope.id
        # Nothing is awaited before the memory is consistent again: reports of other nodes may be handled meanwhile.
        if isinstance(payload, StepTimesReported):
            self._take(payload, cause_id)
        elif isinstance(payload, JobEnded):
            self._forget(payload.job_id, f"job {payload.job_id} has ended", cause_id)
        else:
            raise ContractViolation(f"{delivery.envelope.type} says nothing of step times")
        await self._settle()

    async def recall(self) -> None:
        """At start: which ranks an earlier life has told to be slow.

        Raises:
            TransientError: the store did not answer.
        """
        slow: dict[tuple[str, int], dict[Rank, str]] = {}
        for key in await self._records.keys():
            try:
                stored = await self._records.load(key)
            except PermanentError:
                continue  # told by the rescan of all records
            if stored is None:
                continue
            condition, cause = stored.condition, stored.condition.cause
            if condition.entity.check != STRAGGLER_CHECK or condition.phase is Phase.CLEAR or cause is None:
                continue
            if cause.rank is not None and cause.topology_version is not None:
                ranks = slow.setdefault((cause.job_id, cause.topology_version), {})
                ranks[Rank(cause.rank)] = condition.entity.node_id
        for (job_id, version), ranks in sorted(slow.items()):
            if job_id in self._jobs:  # heard of meanwhile; what is older is over
                self._clear(job_id, version, ranks, f"version {version} of job {job_id} is over", str(version))
            else:
                self._jobs[job_id] = self._watched(version, max(ranks) + 1, ranks)

    async def forever(self) -> None:
        """Recall, then look from time to time for jobs that have fallen silent and for what is still owed."""
        recalled = False
        while True:
            try:
                if not recalled:
                    await self.recall()
                    recalled = True
                await self.sweep()
            except TransientError as error:
                _log.warning("straggler_sweep_failed", error=str(error))
            await self._clock.sleep(SWEEP_S)

    async def sweep(self) -> None:
        """Forget silent jobs, and tell what could not be told."""
        before_s = self._clock.monotonic_s() - SILENT_S
        for job_id in [job_id for job_id, watched in self._jobs.items() if watched.heard_s < before_s]:
            self._forget(job_id, f"job {job_id} has told no step times for {SILENT_S:.0f} s", f"{before_s}")
        await self._settle()

    def _take(self, report: StepTimesReported, cause_id: str) -> None:
        job_id, version = report.job_id, report.topology_version
        watched = self._jobs.get(job_id)
        if watched is not None and watched.gang.is_over(report):
            return
        if watched is None or version != watched.gang.topology_version:
            self._forget(job_id, f"job {job_id} goes on as version {version}; windows are counted anew", cause_id)
            if not self._has_room(report):
                return
            watched = self._jobs[job_id] = self._watched(version, report.world_size, {})
        watched.heard_s = self._clock.monotonic_s()
        for found in watched.gang.take(report):
            self._found(report, found, cause_id)

    def _watched(self, version: int, world_size: int, slow: Mapping[Rank, str]) -> _Watched:
        gang = GangPace(topology_version=version, world_size=world_size, policy=self._policy, slow=slow)
        return _Watched(gang=gang, heard_s=self._clock.monotonic_s())

    def _has_room(self, report: StepTimesReported) -> bool:
        ranks = sum(watched.gang.world_size for watched in self._jobs.values()) + report.world_size
        if len(self._jobs) < JOBS_MAX and ranks <= RANKS_MAX:
            return True
        if not self._full_told:
            self._full_told = True
            _log.warning("stragglers_not_watched", job_id=report.job_id, jobs=len(self._jobs), ranks=ranks)
        return False

    def _found(self, report: StepTimesReported, found: GangFinding, cause_id: str) -> None:
        finding = found.finding
        bad = finding.kind is SlowKind.SLOW
        _log.info(
            "rank_is_slow" if bad else "rank_is_slow_no_more",
            job_id=report.job_id,
            node_id=found.node_id,
            rank=finding.rank,
            rule_id=finding.rule_id,
            ratio=round(finding.ratio, 4),
            rank_s=finding.rank_s,
            peers_s=finding.peers_s,
            slow_windows=finding.slow_windows,
        )
        self._owe(
            report.job_id,
            report.topology_version,
            finding.rank,
            found.node_id,
            Health.BAD if bad else Health.OK,
            finding.sentence,
            cause_id,
        )

    def _forget(self, job_id: str, why: str, cause_id: str) -> None:
        watched = self._jobs.pop(job_id, None)
        if watched is None:
            return
        self._full_told = False
        gang = watched.gang
        self._clear(job_id, gang.topology_version, gang.slow(), why, cause_id)

    def _clear(self, job_id: str, version: int, slow: Mapping[Rank, str], why: str, cause_id: str) -> None:
        for rank, node_id in slow.items():
            self._owe(job_id, version, rank, node_id, Health.OK, f"rank {rank} was slow; {why}", cause_id)

    def _owe(
        self, job_id: str, version: int, rank: Rank, node_id: str, health: Health, sentence: str, cause_id: str
    ) -> None:
        name = f"{job_id}/rank {rank}"
        entity = Entity(
            node_id=node_id,
            component=Component.PROCESS,
            component_id=name if len(name) <= 256 else derived_id(job_id, str(rank)),
            check=STRAGGLER_CHECK,
        )
        self._owed[entity.key] = Signal(
            signal_id=derived_id(cause_id, STRAGGLER_CHECK, rank, health),
            entity=entity,
            health=health,
            detail=sentence,
            # This service's clock: the finding is its own, over nodes whose clocks may differ.
            observed_at=self._clock.now(),
            job_id=job_id,
            topology_version=version,
            rank=rank,
        )

    async def _settle(self) -> None:
        """Bring the conditions to what was found last; what the store does not take now is tried at the next sweep."""
        for key, signal in list(self._owed.items()):
            try:
                await self._advance.advance(signal.entity, self._decision(signal), causation_id=signal.signal_id)
            except TransientError as error:
                _log.warning("straggler_not_recorded", job_id=signal.job_id, rank=signal.rank, error=str(error))
                return
            if self._owed.get(key) is signal:
                del self._owed[key]

    def _decision(self, signal: Signal) -> Decide:
        now = self._clock.now()

        def decide(condition: Condition) -> Step:
            return observe(condition, signal, now=now, policy=self._conditions)

        return decide

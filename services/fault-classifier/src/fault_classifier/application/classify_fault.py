"""The one path on which a job's evidence changes: load, decide, persist with what is owed, publish, clear.

Messages about one job come on several subjects, so several handlers may hold the same job: a lock per job keeps them
from fighting in this process, compare-and-set from doing harm between processes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from fault_attribution.cause_rule import CauseBook
from fault_classifier.application.ports import EvidenceRecords, Record
from fault_classifier.domain.classify import JudgePolicy, Step, next_deadline, step
from fault_classifier.domain.event import Event, GangBegun, IncidentOver, JobOver, SurroundingsSeen, TimePassed
from fault_classifier.domain.evidence import JobEvidence, nodes_of
from fault_classifier.domain.neighbourhood import Neighbourhood
from fault_contracts.envelope import Envelope, seal
from fault_contracts.faults import FaultClassified
from service_kit.deadlines import Deadlines
from service_kit.errors import CompareAndSetLost, TransientError
from service_kit.failpoints import Failpoints
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock

SOURCE = "/fault-classifier"
ROUNDS_MAX = 16
"""Lost compare-and-sets in a row on one record; more means a writer that never stops, and the bus redelivers later."""
JOBS_HELD_MAX = 256
"""Records kept in memory to save a read per message; at most some 100 KB each."""

_log = get_logger(__name__)


@dataclass(slots=True)
class _Held:
    """A job this process has touched lately; `record` is None when it must be read again."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    record: Record | None = None


class ClassifyFault:
    """Applies events to jobs and brings out the verdicts, each once by its id."""

    def __init__(
        self,
        *,
        records: EvidenceRecords,
        bus: Bus,
        clock: Clock,
        deadlines: Deadlines,
        policy: JudgePolicy,
        book: Callable[[], CauseBook],
        neighbourhood: Neighbourhood,
        failpoints: Failpoints,
    ) -> None:
        self._records = records
        self._book = book
        self._neighbourhood = neighbourhood
        self._bus = bus
        self._clock = clock
        self._deadlines = deadlines
        self._policy = policy
        self._failpoints = failpoints
        self._held: OrderedDict[str, _Held] = OrderedDict()

    async def apply(self, job_id: str, event: Event, *, causation_id: str = "") -> None:
        """Take one event in; everything it owes is on the bus when this returns.

        Raises:
            TransientError: bus or store did not answer; safe to repeat, and the caller owns that.
        """
        held = self._hold(job_id)
        async with held.lock:
            for _ in range(ROUNDS_MAX):
                # After a write of unknown fate the held record is too old; the next write is refused and we reload.
                try:
                    await self._round(job_id, held, event, causation_id)
                except CompareAndSetLost:
                    held.record = None
                    continue
                return
            raise TransientError(f"evidence of {job_id} changed {ROUNDS_MAX} times while it was decided on")

    async def forget(self, job_id: str) -> None:
        """Drop the record of a job."""
        held = self._hold(job_id)
        async with held.lock:
            held.record = None
            await self._records.drop(job_id)
            self._deadlines.set(job_id, None)

    async def _round(self, job_id: str, held: _Held, event: Event, causation_id: str) -> None:
        record = held.record or await self._records.load(job_id)
        if record is None:
            record = Record(job=JobEvidence(job_id=job_id), pending=(), revision=None)
        if record.pending:  # A predecessor was killed between persist and clear. Its verdicts come first.
            await self._publish(record.pending)
        self._failpoints.reach("after_load")
        decided = self._decide(record.job, event)
        self._failpoints.reach("after_decide")
        self._deadlines.set(job_id, next_deadline(decided.job))
        effects = tuple(self._sealed(each, record.job, causation_id) for each in decided.effects)
        if decided.job == record.job and not record.pending:
            # Also that there is no record yet is remembered: a gang's beginning saves the read at its first fault.
            held.record = record
            return
        saved = await self._records.save(replace(record, job=decided.job, pending=effects))
        held.record = saved
        self._failpoints.reach("after_persist")
        if effects:
            await self._publish(effects)
            self._failpoints.reach("after_publish")
            self._say(decided)
            held.record = await self._records.save(replace(saved, pending=()))
            self._failpoints.reach("after_clear")

    def _decide(self, job: JobEvidence, event: Event) -> Step:
        """With what is known around the job; a verdict is looked at again with what befell other jobs."""
        if isinstance(event, TimePassed | IncidentOver | GangBegun | JobOver):
            return self._step(job, event)
        now, version = self._clock.now(), event.topology_version
        decided = self._step(job, event)
        generation = decided.job.generation(version)
        if not generation.is_broken or isinstance(event, SurroundingsSeen):
            return decided
        nodes = nodes_of(generation)
        self._neighbourhood.note_broken(job.job_id, version, nodes, now)
        around = self._neighbourhood.around(nodes, now)
        if decided.effects:
            cause = decided.effects[-1].cause
            around += self._neighbourhood.elsewhere(job.job_id, cause, nodes, now)
            self._neighbourhood.note_verdict(job.job_id, cause, nodes, now)
        if not any(each not in generation.surroundings for each in around):
            return decided
        # The same event once more, in knowledge of its surroundings: nothing was published yet.
        told = self._step(job, SurroundingsSeen(topology_version=version, surroundings=around))
        return self._step(told.job, event)

    def _step(self, job: JobEvidence, event: Event) -> Step:
        return step(job, event, now=self._clock.now(), policy=self._policy, book=self._book())

    async def _publish(self, envelopes: tuple[Envelope[Any], ...]) -> None:
        for envelope in envelopes:  # one, but for a record that a predecessor left
            await self._bus.publish(envelope)

    def _sealed(self, verdict: FaultClassified, job: JobEvidence, causation_id: str) -> Envelope[FaultClassified]:
        return seal(
            verdict,
            source=SOURCE,
            cause_id=verdict.fault_id,
            time=self._clock.now(),
            correlation_id=job.generation(verdict.topology_version).incident_id,
            causation_id=causation_id,
        )

    def _say(self, decided: Step) -> None:
        for verdict in decided.effects:
            _log.info(
                "fault_classified",
                job_id=verdict.job_id,
                topology_version=verdict.topology_version,
                fault_id=verdict.fault_id,
                attribution=verdict.attribution,
                cause=verdict.cause,
                confidence=verdict.confidence,
                action=verdict.action,
                provisional=verdict.provisional,
                rule_id=decided.reason.rule_id,
                reason=decided.reason.sentence,
                supersedes=verdict.supersedes,
            )

    def _hold(self, job_id: str) -> _Held:
        held = self._held.setdefault(job_id, _Held())
        self._held.move_to_end(job_id)
        if len(self._held) > JOBS_HELD_MAX:
            for old, candidate in self._held.items():
                # A locked one is in use, and dropping it would let a second handler beside it.
                if old != job_id and not candidate.lock.locked():
                    del self._held[old]
                    break
        return held

"""A message → the event it is for the judge."""

from __future__ import annotations

from collections.abc import Iterable

from fault_classifier.application.classify_fault import ClassifyFault
from fault_classifier.application.read_texts import TextReader
from fault_classifier.domain.event import (
    Event,
    GangBegun,
    IncidentOver,
    IncidentSeen,
    JobOver,
    LinesSeen,
    PieceSeen,
    SurroundingsSeen,
)
from fault_classifier.domain.evidence import Exit
from fault_classifier.domain.intake import (
    from_condition,
    from_findings,
    from_lost_node,
    from_node_fault,
    from_surrounding_condition,
)
from fault_classifier.domain.neighbourhood import Neighbourhood
from fault_contracts.findings import FindingsReported
from fault_contracts.health import ConditionCleared, ConditionRaised, Tier
from fault_contracts.payload import Payload
from fault_contracts.recovery import GangFormed, IncidentClosed, IncidentOpened, JobEnded, NodeFaulted, NodeLost
from service_kit.errors import ContractViolation
from service_kit.failpoints import Failpoints
from service_kit.ports import Clock, Delivery

MESSAGES: tuple[type[Payload], ...] = (
    ConditionRaised,
    ConditionCleared,
    FindingsReported,
    NodeLost,
    NodeFaulted,
    IncidentOpened,
    IncidentClosed,
    GangFormed,
    JobEnded,
)


class CollectEvidence:
    """Handler of everything the judge reads. Idempotent: evidence is known by its id."""

    def __init__(
        self,
        *,
        classify: ClassifyFault,
        neighbourhood: Neighbourhood,
        texts: TextReader,
        clock: Clock,
        failpoints: Failpoints,
    ) -> None:
        self._classify = classify
        self._neighbourhood = neighbourhood
        self._texts = texts
        self._clock = clock
        self._failpoints = failpoints

    async def handle(self, delivery: Delivery) -> None:
        """Take one message in; returning acknowledges it.

        Raises:
            TransientError: bus or store did not answer; the consumer owns the retry.
            ContractViolation: a message that this service did not ask for.
        """
        envelope = delivery.envelope
        for job_id, event in self._events(envelope.data):
            await self._classify.apply(job_id, event, causation_id=envelope.id)
        self._failpoints.reach("before_ack")

    def _events(self, payload: Payload) -> Iterable[tuple[str, Event]]:
        match payload:
            case ConditionRaised():
                return self._from_condition(payload)
            case ConditionCleared():
                self._neighbourhood.clear_condition(payload.node_id, payload.condition_id)
                return ()
            case FindingsReported():
                rows, dropped = from_findings(payload), payload.dropped
                lines = LinesSeen(topology_version=payload.topology_version, rows=rows, dropped=dropped)
                return ((payload.job_id, lines),)
            case NodeLost():
                lost = from_lost_node(payload)
                return ((payload.job_id, PieceSeen(topology_version=payload.topology_version, piece=lost)),)
            case NodeFaulted():
                fault = from_node_fault(payload)
                return ((payload.job_id, PieceSeen(topology_version=payload.topology_version, piece=fault)),)
            case IncidentOpened(planned=True):
                return ()  # nobody waits for a verdict; what breaks nevertheless brings its own evidence
            case IncidentOpened():
                opened = IncidentSeen(topology_version=payload.topology_version, incident_id=payload.incident_id)
                return ((payload.job_id, opened),)
            case IncidentClosed():
                return ((payload.job_id, IncidentOver(topology_version=payload.topology_version)),)
            case GangFormed():
                return ((payload.job_id, GangBegun(nodes=payload.nodes)),)
            case JobEnded():
                return ((payload.job_id, JobOver()),)
            case _:
                raise ContractViolation(f"{type(payload).__name__} is not for the judge")

    def _from_condition(self, raised: ConditionRaised) -> Iterable[tuple[str, Event]]:
        if raised.job_id and raised.topology_version is not None and raised.tier is Tier.FAILURE:
            version, piece = raised.topology_version, from_condition(raised)
            rows = self._texts.rows(raised, piece) if isinstance(piece, Exit) else ()
            if rows:  # before the death that they explain: one verdict, not two
                yield raised.job_id, LinesSeen(topology_version=version, rows=rows)
            yield raised.job_id, PieceSeen(topology_version=version, piece=piece)
            return
        # Which jobs a device's fault breaks is the planner's to know: it says so with NodeFaulted. Here it explains.
        around = from_surrounding_condition(raised)
        for job_id, version in self._neighbourhood.note_condition(around, self._clock.now()):
            yield job_id, SurroundingsSeen(topology_version=version, surroundings=(around,))

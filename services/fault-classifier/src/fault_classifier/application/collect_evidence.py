"""A message → the event it is for the judge."""

from __future__ import annotations

from fault_classifier.application.classify_fault import ClassifyFault
from fault_classifier.domain.event import Event, GangBegun, IncidentOver, IncidentSeen, JobOver, PieceSeen
from fault_classifier.domain.intake import from_condition, from_lost_node, from_node_fault
from fault_contracts.health import ConditionRaised, Tier
from fault_contracts.payload import Payload
from fault_contracts.recovery import GangFormed, IncidentClosed, IncidentOpened, JobEnded, NodeFaulted, NodeLost
from service_kit.errors import ContractViolation
from service_kit.failpoints import Failpoints
from service_kit.logging import get_logger
from service_kit.ports import Delivery

CONDITIONS: tuple[type[Payload], ...] = (ConditionRaised,)
JOURNAL: tuple[type[Payload], ...] = (NodeLost, NodeFaulted, IncidentOpened, IncidentClosed, GangFormed, JobEnded)

_log = get_logger(__name__)


class CollectEvidence:
    """Handler of everything the judge reads. Idempotent: evidence is known by its id."""

    def __init__(self, *, classify: ClassifyFault, failpoints: Failpoints) -> None:
        self._classify = classify
        self._failpoints = failpoints

    async def handle(self, delivery: Delivery) -> None:
        """Take one message in; returning acknowledges it.

        Raises:
            TransientError: bus or store did not answer; the consumer owns the retry.
            ContractViolation: a message that this service did not ask for.
        """
        envelope = delivery.envelope
        event = self._event(envelope.data)
        if event is not None:
            await self._classify.apply(envelope.data.job_id, event, causation_id=envelope.id)
        self._failpoints.reach("before_ack")

    def _event(self, payload: Payload) -> Event | None:
        match payload:
            case ConditionRaised():
                return self._from_condition(payload)
            case NodeLost():
                return PieceSeen(topology_version=payload.topology_version, piece=from_lost_node(payload))
            case NodeFaulted():
                return PieceSeen(topology_version=payload.topology_version, piece=from_node_fault(payload))
            case IncidentOpened():
                return IncidentSeen(topology_version=payload.topology_version, incident_id=payload.incident_id)
            case IncidentClosed():
                return IncidentOver(topology_version=payload.topology_version)
            case GangFormed():
                return GangBegun()
            case JobEnded():
                return JobOver()
            case _:
                raise ContractViolation(f"{type(payload).__name__} is not for the judge")

    def _from_condition(self, raised: ConditionRaised) -> Event | None:
        if raised.tier is not Tier.FAILURE:
            return None  # A problem is tolerated; it is raised again as a failure when it outlasts its window.
        if not raised.job_id or raised.topology_version is None:
            # Which jobs a device's fault concerns is the planner's to know: it says so with NodeFaulted.
            _log.debug("condition_without_job", condition_id=raised.condition_id, check=raised.check)
            return None
        return PieceSeen(topology_version=raised.topology_version, piece=from_condition(raised))

"""What befell nodes and jobs lately, over all jobs: for whoever is to say whether a cause is shared.

In memory. A leader that takes over knows the incidents that are open, from their records, and learns the rest anew: in
its first minutes it may take a shared fault for one of a node, as a planner did that knew of one job alone.
"""

from __future__ import annotations

from collections import deque

from fault_contracts.faults import Attribution, FaultClassified
from fault_contracts.hardware import costs_node
from fault_contracts.health import ConditionRaised
from recovery_planner.domain.cause_links import NODE_ACTIONS, sighting_of
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.shared_causes import AT_ONCE, Link, Sighting, Sightings, family_of, linked
from service_kit.ports import Clock

SIGHTINGS_MAX = 2_048
"""A row of racks that loses its power at once."""


class CauseBoard:
    """A GangWatcher that remembers verdicts, and hears of conditions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sightings: deque[Sighting] = deque(maxlen=SIGHTINGS_MAX)
        self._known: dict[str, str] = {}
        self._gangs: dict[str, Gang] = {}

    @property
    def sightings(self) -> Sightings:
        """Of the last minutes; the same object for ever."""
        return self._sightings

    def observe(self, gang: Gang) -> None:
        """See GangWatcher: a verdict of an open incident is a sighting."""
        if gang.phase is Phase.ENDED:
            self.forget(gang.job_id)
            return
        self._gangs[gang.job_id] = gang
        verdict = None if gang.incident is None else gang.incident.verdict
        if verdict is None or verdict.provisional or self._known.get(gang.job_id) == verdict.fault_id:
            return
        self._known[gang.job_id] = verdict.fault_id
        sighting = sighting_of(gang, verdict)
        if sighting is not None:
            self._put(sighting)

    def forget(self, job_id: str) -> None:
        """See GangWatcher. What befell the job a moment ago is still true for others."""
        self._gangs.pop(job_id, None)
        self._known.pop(job_id, None)

    def clear(self) -> None:
        """Somebody else leads; what is kept here grows old."""
        self._sightings.clear()

    def shared_by(self, fault: FaultClassified) -> Link | None:
        """Whether others have the cause of a verdict that blames a node."""
        family = family_of(fault.cause, fault.attribution, costs_node=fault.action in NODE_ACTIONS)
        if family is None:
            return None
        node_id = fault.culprit.node_id or ""
        own = Sighting(
            at=self._clock.now(),
            node_id=node_id,
            family=family,
            cause=fault.cause,
            evidence_id=fault.fault_id,
            job_id=fault.job_id,
            labels=self._labels(node_id, (fault.job_id,)),
        )
        self._put(own)
        return linked(own, self._sightings)

    def raised(self, condition: ConditionRaised, jobs: tuple[str, ...]) -> None:
        """A device of a node failed."""
        device = condition.device
        origin = Attribution.UNKNOWN if device is None else device.origin
        family = family_of(condition.check, origin, costs_node=costs_node(device))
        if family is None:
            return
        self._put(
            Sighting(
                at=self._clock.now(),
                node_id=condition.node_id,
                family=family,
                cause=condition.check,
                evidence_id=condition.condition_id,
                labels=self._labels(condition.node_id, jobs),
            )
        )

    def _labels(self, node_id: str, jobs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        members = (gang.members.get(node_id) for job in jobs if (gang := self._gangs.get(job)) is not None)
        return next((tuple(sorted(member.labels.items())) for member in members if member is not None), ())

    def _put(self, sighting: Sighting) -> None:
        if any(each.evidence_id == sighting.evidence_id for each in self._sightings):
            return
        while self._sightings and self._clock.now() - self._sightings[0].at > 2 * AT_ONCE:
            self._sightings.popleft()
        self._sightings.append(sighting)

"""Shows the person which rank of this node is slow, and when it is no more. Acts on nothing."""

from __future__ import annotations

from fault_contracts.health import ConditionCleared, ConditionRaised
from fault_contracts.payload import Payload
from fault_contracts.step_times import STRAGGLER_CHECK
from node_agent.application.agent_life import AgentIdentity
from node_agent.application.control_ports import Announcer
from service_kit.ports import Bus, Delivery, Subscription

CONDITIONS: tuple[type[Payload], ...] = (ConditionRaised, ConditionCleared)
TOLD_MAX = 1_024
"""As many ranks as a node may have."""


class StragglerTeller:
    """Hears the conditions of this node."""

    def __init__(self, announcer: Announcer, *, job_id: str) -> None:
        self._announcer = announcer
        self._job_id = job_id
        self._told: set[str] = set()

    async def heard(self, delivery: Delivery) -> None:
        """Say it when it is about a rank of this job."""
        condition = delivery.envelope.data
        if condition.check != STRAGGLER_CHECK:
            return
        if isinstance(condition, ConditionRaised):
            if condition.job_id == self._job_id and condition.condition_id not in self._told:
                if len(self._told) >= TOLD_MAX:
                    self._told.clear()
                self._told.add(condition.condition_id)
                self._announcer.say(condition.reason)
        elif condition.condition_id in self._told:
            self._told.discard(condition.condition_id)
            self._announcer.say(condition.reason)


async def tell_stragglers(bus: Bus, identity: AgentIdentity, announcer: Announcer) -> Subscription:
    """Begin to listen for this node and job."""
    teller = StragglerTeller(announcer, job_id=identity.job_id)
    return await bus.listen(messages=CONDITIONS, handler=teller.heard, key=identity.node_id)

"""Signals about what the log rules think of the ranks, and about the watch itself: thinned out, cleared when over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from fault_contracts.health import Component, SignalObserved
from fault_contracts.ids import derived_id
from fault_contracts.payload import Health
from node_agent.application.agent_life import AgentIdentity
from node_agent.application.control_ports import Announcer
from node_agent.application.outgoing import Outgoing
from node_agent.domain.signal_pace import Pace, Paced, due, seen
from service_kit.ports import Clock
from training_topology.identity import Rank

FINDING_PACE = Pace(change_s=10.0)
"""A rule on a rank: six changes a minute say that it flaps as well as six hundred would."""
MONITOR_PACE = Pace(change_s=10.0, repeat_s=60.0)
THINGS_MAX = 4_096
"""Rules times ranks that are bad at once; what comes beyond is not told, and that is counted."""
_COMPONENT_ID_MAX = 256
_DETAIL_MAX = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One thing as it is now.

    Attributes:
        check: the same for good and bad, so that good clears bad.
        says: tells one bad state from another; a change of it is news.
        line: for the terminal, when it is news; empty: the person is not bothered.
    """

    component: Component
    check: str
    rank: Rank | None = None
    health: Health
    says: str
    detail: str
    line: str = ""
    source: str = "log_rule"
    values: Mapping[str, float] = field(default_factory=dict)


class LogSignals:
    """Keeps what is bad until it is told that it is good again."""

    def __init__(self, identity: AgentIdentity, outgoing: Outgoing, clock: Clock, announcer: Announcer) -> None:
        self._identity = identity
        self._outgoing = outgoing
        self._clock = clock
        self._announcer = announcer
        self._things: dict[tuple[str, Rank | None], tuple[Observation, Paced]] = {}
        self.untold = 0
        """Observations beyond THINGS_MAX."""

    def observe(self, now: Observation) -> None:
        """Take note. A signal leaves at once, or with a later `tick`."""
        key = (now.check, now.rank)
        known = self._things.get(key)
        if known is None and now.health is Health.OK:
            return
        if known is None and len(self._things) >= THINGS_MAX:
            self.untold += 1
            return
        before, paced = known or (now, Paced())
        is_bad = now.health is not Health.OK
        self._tell(key, now, seen(paced, is_bad=is_bad, news=before.says != now.says))

    def tick(self) -> None:
        """Tell what had to wait."""
        for key, (observation, paced) in list(self._things.items()):
            self._tell(key, observation, paced)

    def forget_ranks(self, why: str) -> None:
        """The ranks are started anew: nothing that was said of the old ones holds any more."""
        for key, (observation, paced) in list(self._things.items()):
            if observation.component is Component.LOG:
                over = Observation(
                    component=observation.component,
                    check=observation.check,
                    rank=observation.rank,
                    health=Health.OK,
                    says="",
                    detail=f"{observation.check} is over: {why}",
                )
                self._tell(key, over, seen(paced, is_bad=False))

    def close(self) -> None:
        """The agent leaves, and nobody will say later that a state is over: say it now, as often as it takes."""
        self.forget_ranks("the agent of this job leaves")
        for observation, paced in self._things.values():
            while not paced.is_settled and not paced.is_bad:
                paced, _ = due(paced, Pace(change_s=0.0), now_s=self._clock.monotonic_s())
                self._send(observation)
        self._things.clear()

    def _tell(self, key: tuple[str, Rank | None], observation: Observation, paced: Paced) -> None:
        pace = FINDING_PACE if observation.component is Component.LOG else MONITOR_PACE
        is_news = paced.told_bad is not paced.is_bad or paced.news
        paced, is_due = due(paced, pace, now_s=self._clock.monotonic_s())
        if is_due:
            self._send(observation)
            if observation.line and is_news:
                self._announcer.say(observation.line)
        if paced.is_settled:
            self._things.pop(key, None)
        else:
            self._things[key] = (observation, paced)

    def _send(self, observation: Observation) -> None:
        identity = self._identity
        place = identity.job_id if observation.rank is None else f"{identity.job_id}/rank {observation.rank}"
        self._outgoing.send(
            SignalObserved(
                node_id=identity.node_id,
                component=observation.component,
                component_id=place if len(place) <= _COMPONENT_ID_MAX else derived_id(place, observation.check),
                check=observation.check,
                health=observation.health,
                detail=observation.detail[:_DETAIL_MAX],
                values={name: value for name, value in observation.values.items() if math.isfinite(value)},
                job_id=identity.job_id,
                rank=observation.rank,
                source=observation.source,
                observed_at=self._clock.now(),
            )
        )

"""The windows of one generation of a gang, from all its nodes, put together and compared.

Nodes report on their own. A round is complete when every rank of the gang has a window in it; a node that is silent
while another reports several times is left out of the round, and its ranks are unknown.

Changed in place: thousands of ranks report every few seconds, and a copy of them all for each report would cost more
than the comparison. It reads no clock; the same reports in the same order give the same findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fault_contracts.step_times import RankStepTimes, StepTimesReported
from health_ingest.domain.straggler import (
    SAMPLES_FOR_NOISE,
    Pace,
    RankPace,
    StragglerFinding,
    StragglerPolicy,
    StragglerState,
    step,
)
from training_topology.identity import Rank

WINDOWS_WAITED = 3
"""Of one node for the others: nodes that cut windows of different length meet within that."""
OWN_WORK = "of own work a step"
WHOLE_STEPS = "a step, waits included"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFinding:
    """A rank of this gang is slow, or is so no more; `node_id` is where it runs."""

    node_id: str
    finding: StragglerFinding


class GangPace:
    """One generation of one gang."""

    def __init__(
        self,
        *,
        topology_version: int,
        world_size: int,
        policy: StragglerPolicy,
        slow: Mapping[Rank, str] | None = None,
    ) -> None:
        """Begin with ranks that an earlier life of this service has told to be slow, and their nodes."""
        self.topology_version = topology_version
        self.world_size = world_size
        self._policy = policy
        self._nodes: dict[Rank, str] = dict(slow or {})
        self._state = StragglerState(ranks={rank: RankPace(told=True) for rank in self._nodes})
        self._round: dict[Rank, RankStepTimes] = {}
        self._reports: dict[str, int] = {}
        self._newest: dict[str, tuple[str, int]] = {}

    def slow(self) -> dict[Rank, str]:
        """Ranks that are told to be slow, and their nodes."""
        return {rank: self._nodes[rank] for rank, pace in self._state.ranks.items() if pace.told}

    def is_over(self, report: StepTimesReported) -> bool:
        """Whether the report is of a generation before this one.

        A smaller version from another life of the agent is a new run under an old name: it counts versions anew.
        """
        known, _ = self._newest.get(report.node_id, ("", -1))
        return report.topology_version < self.topology_version and report.instance_id == known

    def take(self, report: StepTimesReported) -> list[GangFinding]:
        """One node's window; what was found when it completed a round. A copy or an older window changes nothing."""
        assert report.topology_version == self.topology_version, "a report of another generation"
        instance_id, window = self._newest.get(report.node_id, ("", -1))
        if report.instance_id == instance_id and report.window <= window:
            return []
        self._newest[report.node_id] = (report.instance_id, report.window)
        self.world_size = report.world_size
        for times in report.ranks:
            rank = Rank(times.rank)
            if rank >= report.world_size:
                continue  # a node that counts otherwise than its gang; nobody else would
            self._round[rank] = times
            self._nodes[rank] = report.node_id
        reports = self._reports[report.node_id] = self._reports.get(report.node_id, 0) + 1
        if len(self._round) < self.world_size and reports < WINDOWS_WAITED:
            return []
        return self._compare()

    def _compare(self) -> list[GangFinding]:
        found: list[GangFinding] = []
        groups: dict[str, list[RankStepTimes]] = {}
        for times in self._round.values():
            groups.setdefault(times.peers, []).append(times)
        for _, members in sorted(groups.items()):
            paces, measured = _paces(members)
            result = step(self._state, paces, policy=self._policy, measured=measured)
            self._state = result.state
            found += [GangFinding(node_id=self._nodes[each.rank], finding=each) for each in result.findings]
        self._round, self._reports = {}, {}
        return found


def _paces(members: Iterable[RankStepTimes]) -> tuple[dict[Rank, Pace], str]:
    """Own work where at least two ranks tell it, whole steps else: never one against the other."""
    own: dict[Rank, Pace] = {}
    whole: dict[Rank, Pace] = {}
    for times in members:
        rank = Rank(times.rank)
        whole[rank] = Pace(count=times.count, median_s=times.median_s, spread_s=times.spread_s)
        if times.busy_median_s is not None and times.busy_count >= SAMPLES_FOR_NOISE:
            spread_s = times.busy_spread_s or 0.0
            own[rank] = Pace(count=times.busy_count, median_s=times.busy_median_s, spread_s=spread_s)
    return (own, OWN_WORK) if len(own) >= 2 else (whole, WHOLE_STEPS)

"""Measures of all nodes → signals about devices that are out of the ordinary among their peers.

Each report is weighed by one replica; what it needs of the others lies in windows that all replicas share. Without them
nothing is judged: what was raised stays as it is, and the windows fill again within a few sweeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from fault_contracts.envelope import Envelope, derived_id, seal
from fault_contracts.health import SignalObserved
from fault_contracts.measures import MeasuresReported
from fault_contracts.payload import At, Health, Payload
from fault_contracts.recovery import GangFormed, JobEnded
from fault_contracts.step_times import StepTimesReported
from health_ingest.application.peer_ports import PeerWindows
from health_ingest.domain.gangs_of_nodes import GangsOfNodes
from health_ingest.domain.peer_outlier import Comparison, Measured, Verdict, compare
from health_ingest.domain.peer_report import Comparable, PeerPolicy, by_peers, comparables
from health_ingest.domain.peer_window import Place, Standing, WindowPolicy, judge, place_from
from service_kit.errors import ContractViolation, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock, Delivery

SOURCE = "/health-ingest/peers"
SIGNAL_SOURCE = "peers"
FRESH_S = 75.0
"""Two sweeps of 30 s and a half: an older report says nothing of now, and its node is no peer."""
GONE_S = 600.0
"""A node that was silent for so long is taken out of its group."""
OWED_MAX = 4_096
"""Signals that wait for the bus; one a device and check, so this is 500 nodes of outliers."""
SWEEP_S = 10.0

_log = get_logger(__name__)


class _Shared(Payload):
    """A report as its group keeps it; the time is this service's, because nodes' clocks differ."""

    heard_at: At
    report: MeasuresReported


@dataclass(frozen=True, slots=True, kw_only=True)
class _Peers:
    """Who a report's devices are held against: the gang first, its own node when the gang has too few."""

    job_id: str
    gang: Mapping[tuple[str, str, str], Sequence[Measured]]
    node: Mapping[tuple[str, str, str], Sequence[Measured]]


class WatchPeers:
    """Hears MeasuresReported (shared among replicas), and who works where (every replica). Owns its signals' retry."""

    def __init__(
        self, *, windows: PeerWindows, bus: Bus, clock: Clock, policy: PeerPolicy, sweeps: WindowPolicy
    ) -> None:
        self._windows = windows
        self._bus = bus
        self._clock = clock
        self._policy = policy
        self._sweeps = sweeps
        self._gangs = GangsOfNodes()
        self._owed: dict[str, Envelope[SignalObserved]] = {}
        self._standing_out: set[str] = set()
        """Said in the log; each sweep says it again on the bus."""
        self._paused = False

    async def heard_of_jobs(self, delivery: Delivery) -> None:
        """Learn which gang works on which node."""
        payload = delivery.envelope.data
        if isinstance(payload, GangFormed):
            self._gangs.formed(payload)
        elif isinstance(payload, StepTimesReported):
            self._gangs.stepped(payload)
        elif isinstance(payload, JobEnded):
            self._gangs.ended(payload)
        else:
            raise ContractViolation(f"{delivery.envelope.type} does not say who works where")

    async def heard(self, delivery: Delivery) -> None:
        """Weigh one node's report."""
        report = delivery.envelope.data
        if not isinstance(report, MeasuresReported):
            raise ContractViolation(f"{delivery.envelope.type} has no measures")
        try:
            found = await self._weigh(report)
        except TransientError as error:  # the windows; nothing else is asked here
            self._pause(str(error))
            return
        if self._paused:
            self._paused = False
            _log.info("peers_judged_again", node_id=report.node_id)
        for comparable, comparison, standing in found:
            self._owe(report, comparable, comparison, standing)
        await self._settle()

    async def forever(self) -> None:
        """Try again to tell what the bus did not take."""
        while True:
            await self._clock.sleep(SWEEP_S)
            await self._settle()

    async def _weigh(self, report: MeasuresReported) -> list[tuple[Comparable, Comparison, Standing]]:
        values = list(comparables(report))
        if not values:
            return []
        peers = await self._peers_of(report)
        compared = [(value, self._compare(value, peers)) for value in values]
        sweep_id = f"{report.instance_id}/{report.sweep}"
        rows = await self._windows.append(
            {
                _row(value): Place(sweep_id=sweep_id, verdict=comparison.verdict).to_text()
                for value, comparison in compared
            },
            keep=self._sweeps.sweeps_of,
        )
        found: list[tuple[Comparable, Comparison, Standing]] = []
        for value, comparison in compared:
            row = [place_from(text) for text in rows.get(_row(value), ())]
            standing = judge(row, self._sweeps)
            if standing is not Standing.NOTHING and comparison.verdict is not Verdict.UNKNOWN:
                found.append((value, comparison, standing))
        return found

    async def _peers_of(self, report: MeasuresReported) -> _Peers:
        node = by_peers([report])
        cohort = self._gangs.of(report.node_id)
        if cohort is None:
            return _Peers(job_id="", gang={}, node=node)
        now = self._clock.now()
        group = f"gang/{cohort.name}"
        mine = _Shared(heard_at=now, report=report).model_dump_json().encode()
        reports, gone = _read(await self._windows.share(group, report.node_id, mine), now)
        if gone:
            await self._windows.forget(group, gone)
        return _Peers(job_id=cohort.job_id, gang=by_peers(reports), node=node)

    def _compare(self, value: Comparable, peers: _Peers) -> Comparison:
        yardstick = self._policy.yardsticks[value.check]
        if peers.job_id:
            of_gang = compare(
                value.measured, peers.gang.get(value.peers_key, ()), yardstick, among=f"of job {peers.job_id}"
            )
            if of_gang.verdict is not Verdict.UNKNOWN:
                return of_gang
        return compare(value.measured, peers.node.get(value.peers_key, ()), yardstick, among="of the same node")

    def _owe(self, report: MeasuresReported, value: Comparable, comparison: Comparison, standing: Standing) -> None:
        bad = standing is Standing.STANDS_OUT
        key = f"{report.node_id} {_row(value)}"
        if not bad:
            self._standing_out.discard(key)
        elif key not in self._standing_out:
            self._standing_out.add(key)
            _log.info(
                "device_stands_out",
                node_id=report.node_id,
                check=value.check,
                component_id=value.component_id,
                gap=comparison.gap,
                median=comparison.median,
                peers=comparison.peers,
            )
        if key not in self._owed and len(self._owed) >= OWED_MAX:
            _log.warning("peer_signal_dropped", owed=len(self._owed), check=value.check, node_id=report.node_id)
            return
        now = self._clock.now()
        self._owed[key] = seal(
            self._signal(report, value, comparison, bad=bad, now=now),
            source=SOURCE,
            cause_id=derived_id(SIGNAL_SOURCE, value.check, value.component_id, report.instance_id, str(report.sweep)),
            time=now,
        )

    def _signal(
        self, report: MeasuresReported, value: Comparable, comparison: Comparison, *, bad: bool, now: datetime
    ) -> SignalObserved:
        cohort = self._gangs.of(report.node_id)
        sweeps = self._sweeps
        often = (
            f"in at least {sweeps.sweeps} of {sweeps.sweeps_of} sweeps" if bad else f"well for {sweeps.sweeps} sweeps"
        )
        numbers = {"value": value.measured.value, "median": comparison.median, "gap": comparison.gap}
        attributes = {"name": value.model, "gpu_uuid": value.measured.device_id.partition("/")[0]}
        return SignalObserved(
            node_id=report.node_id,
            component=value.component,
            component_id=value.component_id,
            check=value.check,
            health=Health.BAD if bad else Health.OK,
            detail=f"{comparison.sentence}; {often}",
            values={name: number for name, number in numbers.items() if number is not None}
            | {"peers": float(comparison.peers)},
            attributes=attributes if value.component == "gpu" else {"name": value.model},
            job_id="" if cohort is None else cohort.job_id,
            source=SIGNAL_SOURCE,
            # This service's clock: the finding is its own, over nodes whose clocks may differ.
            observed_at=now,
        )

    async def _settle(self) -> None:
        for key, envelope in list(self._owed.items()):
            try:
                await self._bus.publish(envelope)
            except TransientError as error:
                _log.warning("peer_signal_not_told", owed=len(self._owed), error=str(error))
                return
            if self._owed.get(key) is envelope:
                del self._owed[key]

    def _pause(self, why: str) -> None:
        if not self._paused:
            self._paused = True
            _log.warning("peers_not_judged", why=why)


def _row(value: Comparable) -> str:
    return f"row/{value.check}/{value.measured.node_id}/{value.component_id}"


def _read(members: Mapping[str, bytes], now: datetime) -> tuple[list[MeasuresReported], list[str]]:
    """Fresh reports, and members that are long gone or cannot be read (of another version)."""
    fresh: list[MeasuresReported] = []
    gone: list[str] = []
    for member, raw in members.items():
        try:
            shared = _Shared.model_validate_json(raw)
        except ValidationError:
            gone.append(member)
            continue
        age = now - shared.heard_at
        if age <= timedelta(seconds=FRESH_S):
            fresh.append(shared.report)
        elif age > timedelta(seconds=GONE_S):
            gone.append(member)
    return fresh, gone

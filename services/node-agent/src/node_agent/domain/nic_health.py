"""Network ports from look to look: links that went, that flap, that became slow or noisy, adapters that are missing.

A port that never had a link is not in use, which is how most second ports of an adapter look for ever: no observation.
Whether it once had one is known from earlier looks and from the kernel's own count of downs, which outlives this agent.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.nic_reading import LinkKind, LinkReading, NetworkReading
from node_agent.domain.observation import Observation

FLAP_WINDOW_S = 600.0
FLAPS_MAX = 3
"""Returns of a link within the window that make it a flapping one: gpud's infiniband component counts three (reference:
peers-health.md 2.4); AKS reports IBLinkFlapping likewise. The window is ours: what happens every few minutes stops a
collective each time."""
BIT_ERROR_RATE_MAX = 1e-12
"""What a link may have after correction: InfiniBand Architecture Specification vol. 2, and the objective of IEEE 802.3
(for example clause 80.1 for 40 and 100 Gb/s)."""
ERRORS_MIN = 10
"""Fewer in one look mean nothing: a link that trains makes a handful."""
PEERS_MIN = 3
"""So many other ports of the same model must agree before one that is slower than they is called slow."""
LINKS_MAX = 256


@dataclass(slots=True, kw_only=True)
class _Known:
    was_up: bool = False
    up: bool | None = None
    downs: int | None = None
    gbps_max: float = 0.0
    errors: Mapping[str, int] = field(default_factory=dict)
    seen_s: float | None = None
    returns_s: deque[float] = field(default_factory=lambda: deque(maxlen=64))


class NicWatch:
    """Remembers what it needs of each port. `expected`: adapters that must be there; None: as many as at first."""

    def __init__(self, *, expected: int | None = None) -> None:
        self._expected = expected
        self._first: tuple[LinkKind, frozenset[str]] | None = None
        self._known: dict[str, _Known] = {}

    def judge(self, reading: NetworkReading, *, now_s: float, at: datetime) -> list[Observation]:
        """Everything that can be said of this look. Times in monotonic seconds, but for `at`."""
        links = reading.links[:LINKS_MAX]
        told: list[Observation] = []
        for link in links:
            told += self._of_link(link, _usual_gbps(link, links), now_s, at)
        told += self._count(reading, at)
        return told

    def _of_link(self, link: LinkReading, usual_gbps: float, now_s: float, at: datetime) -> Iterator[Observation]:
        known = self._known.setdefault(link.name, _Known())
        first = known.seen_s is None
        returned = _returns(known, link, first=first)
        known.returns_s.extend([now_s] * returned)
        known.was_up = known.was_up or bool(link.up) or bool(link.downs)
        if known.was_up and link.wanted:
            yield _link(link, at)
            yield _flaps(link, known, now_s, at)
            if link.up and link.gbps is not None:
                known.gbps_max = max(known.gbps_max, link.gbps)
                yield _rate(link, known.gbps_max, usual_gbps, at)
            if known.seen_s is not None and link.errors:
                yield from _errors(link, known.errors, now_s - known.seen_s, at)
        known.up, known.downs, known.errors, known.seen_s = link.up, link.downs, link.errors, now_s

    def _count(self, reading: NetworkReading, at: datetime) -> Iterator[Observation]:
        kinds = {link.kind for link in reading.links}
        kind = LinkKind.RDMA if LinkKind.RDMA in kinds or reading.driverless else LinkKind.ETHERNET
        if self._first is not None:
            kind = self._first[0]  # a machine that lost all its RDMA adapters must not be counted by its Ethernet ones
        adapters = frozenset(link.adapter for link in reading.links if link.kind is kind)
        if self._first is None:
            self._first = (kind, adapters)
        expected = len(self._first[1]) if self._expected is None else self._expected
        if not expected and not adapters and not reading.driverless:
            return  # a machine without network adapters, and nobody misses them
        said = "expected" if self._expected is not None else "there at the start"
        problems = []
        if len(adapters) < expected:
            gone = sorted(self._first[1] - adapters)
            problems.append(
                f"{len(adapters)} of {expected} {said}" + (f"; gone: {', '.join(gone[:8])}" if gone else "")
            )
        if reading.driverless:
            problems.append(f"no driver has taken {', '.join(reading.driverless[:8])}")
        yield Observation(
            component=Component.NIC,
            check="nic_count",
            health=Health.BAD if problems else Health.OK,
            detail=f"{kind.value} adapters: " + ("; ".join(problems) or f"{len(adapters)}, {expected} {said}"),
            values={"adapters": float(len(adapters)), "expected": float(expected)},
            observed_at=at,
        )


def _returns(known: _Known, link: LinkReading, *, first: bool) -> int:
    """How often the link came back since the last look. A smaller count of downs is a driver loaded anew."""
    seen = int(not first and known.up is False and bool(link.up))
    if first or link.downs is None or known.downs is None or link.downs < known.downs:
        return seen
    return max(seen, link.downs - known.downs - int(known.up is True and link.up is False))


def _usual_gbps(link: LinkReading, links: Sequence[LinkReading]) -> float:
    """What most of the other ports of the same model have; 0 where too few agree."""
    others = [
        peer.gbps
        for peer in links
        if peer.name != link.name and peer.model and (peer.kind, peer.model) == (link.kind, link.model)
        if peer.up and peer.gbps is not None
    ]
    if not others:
        return 0.0
    gbps, agree = Counter(others).most_common(1)[0]
    return gbps if agree >= PEERS_MIN and agree * 2 > len(others) else 0.0


def _link(link: LinkReading, at: datetime) -> Observation:
    health = Health.UNKNOWN if link.up is None else Health.OK if link.up else Health.BAD
    words = {Health.OK: "up", Health.BAD: "down, and it was up before", Health.UNKNOWN: "state not told"}[health]
    return _observation(link, "nic_link", health, f"{link.name}: {words} ({link.state or 'no state'})", {}, at)


def _flaps(link: LinkReading, known: _Known, now_s: float, at: datetime) -> Observation:
    while known.returns_s and now_s - known.returns_s[0] > FLAP_WINDOW_S:
        known.returns_s.popleft()
    flaps = len(known.returns_s)
    health = Health.BAD if flaps >= FLAPS_MAX else Health.OK
    detail = f"{link.name}: came back {flaps} times in {FLAP_WINDOW_S:.0f} s (bad from {FLAPS_MAX} on)"
    return _observation(link, "nic_flap", health, detail, {"returns": float(flaps)}, at)


def _rate(link: LinkReading, own_max: float, usual: float, at: datetime) -> Observation:
    assert link.gbps is not None, "asked only of links with a rate"
    detail, health = f"{link.name}: {link.gbps:g} Gb/s", Health.OK
    if link.gbps < own_max:
        detail, health = f"{detail}; it had {own_max:g}", Health.BAD
    elif link.gbps < usual:
        detail, health = f"{detail}; most ports of this model have {usual:g}", Health.BAD
    return _observation(link, "nic_rate", health, detail, {"gbps": link.gbps, "expected_gbps": max(own_max, usual)}, at)


def _errors(link: LinkReading, before: Mapping[str, int], elapsed_s: float, at: datetime) -> Iterator[Observation]:
    grown = {name: value - before[name] for name, value in link.errors.items() if name in before}
    if not grown or min(grown.values()) < 0:
        return  # counters that began anew say nothing about the time between
    errors = sum(grown.values())
    allowed = max(ERRORS_MIN, BIT_ERROR_RATE_MAX * (link.gbps or 0.0) * 1e9 * elapsed_s)
    health = Health.BAD if errors > allowed else Health.OK
    worst = ", ".join(f"{name} +{value}" for name, value in sorted(grown.items()) if value) or "none"
    detail = f"{link.name}: errors in {elapsed_s:.0f} s: {worst} (allowed {allowed:.0f})"
    values = {"errors": float(errors), "allowed": round(allowed, 1), "elapsed_s": round(elapsed_s, 1)}
    yield _observation(link, "nic_errors", health, detail, values, at)


def _observation(
    link: LinkReading, check: str, health: Health, detail: str, values: Mapping[str, float], at: datetime
) -> Observation:
    named = {"name": link.name, "pci_bus_id": link.pci_bus_id, "device_id": link.device_id, "model": link.model}
    return Observation(
        component=Component.NIC,
        component_id=link.component_id,
        check=check,
        health=health,
        detail=detail,
        values=values,
        attributes={name: text for name, text in named.items() if text},
        observed_at=at,
    )

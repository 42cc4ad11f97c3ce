"""NVLinks of a GPU: which are up, against what was up before and what its neighbours have, and what errors they add.

Which links a board uses is not written anywhere: a GPU on a PCIe card may use none. So a link is expected when it has
been seen up, or when more than half of the GPUs of the same model in this machine have it up.

Sources: DCGM's dcgm_gpu_hardware_limits.h and its health check of NVLink: a replay or recovery error counts from the
first one (DCGM_LIMIT_MAX_NVLINK_ERROR 1); "CRC errors only matter at rates of 100+ per second". NVLink 5: field 214,
NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS; the other counters of that generation are shown and judge nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fault_contracts.payload import Health
from node_agent.domain.gpu_look import GpuLook, health_of
from node_agent.domain.gpu_reading import GpuReading
from node_agent.domain.observation import Observation

STATE = "nvlink_up"
CRC_PER_S_MAX = 100.0
GRAVE = ("nvlink_replay", "nvlink_recovery", "nvlink_recovery_failed")
"""Counters of which one new error is a finding."""
BY_RATE = "nvlink_crc"
COUNTERS = (*GRAVE, BY_RATE, "nvlink_integrity", "nvlink_receive", "nvlink_malformed", "nvlink_recovery_ok")
PEERS_MIN = 3
"""Of two GPUs that differ nobody can say which is right."""


def links_up(reading: GpuReading) -> frozenset[int]:
    """The links that are up now."""
    return frozenset(link for link, up in enumerate(reading.by_link.get(STATE, ())) if up)


def links_of_peers(gpus: Sequence[GpuReading]) -> dict[str, frozenset[int]]:
    """By model: the links that more than half of the GPUs of this model have up."""
    expected = {}
    for model in {gpu.model for gpu in gpus}:
        peers = [gpu for gpu in gpus if gpu.model == model and STATE in gpu.by_link]
        if len(peers) < PEERS_MIN:
            continue
        counts = Counter(link for gpu in peers for link in links_up(gpu))
        expected[model] = frozenset(link for link, count in counts.items() if 2 * count > len(peers))
    return expected


def links_down(look: GpuLook, of_peers: frozenset[int]) -> frozenset[int]:
    """Expected, and not up."""
    return (look.history.links_up | of_peers) - links_up(look.reading)


def link_counters(reading: GpuReading) -> dict[str, int]:
    """The counters as one flat table: `nvlink_crc.3`."""
    return {
        f"{name}.{link}": value
        for name in COUNTERS
        for link, value in enumerate(reading.by_link.get(name, ()))
        if value >= 0
    }


def nvlink_health(look: GpuLook, of_peers: frozenset[int]) -> Iterator[Observation]:
    """One observation of all links, one of each link that is or was not as expected, and one of the errors."""
    yield from look.unknown("nvlink_state", STATE)
    if STATE in look.reading.by_link:
        yield from _states(look, of_peers)
    if any(name in look.reading.by_link for name in COUNTERS):
        yield _errors(look)


def _states(look: GpuLook, of_peers: frozenset[int]) -> Iterator[Observation]:
    up, down = links_up(look.reading), links_down(look, of_peers)
    number = len(look.reading.by_link[STATE])
    listed = ",".join(str(link) for link in sorted(down))
    values = {"links": number, "links_up": len(up), "links_down": len(down)}
    detail = (
        f"NVLinks {listed} are down; {len(up)} of {number} are up" if down else f"{len(up)} of {number} links are up"
    )
    yield look.tell("nvlink_state", health_of(bool(down)), detail, values=values, attributes={"links_down": listed})
    for link in sorted(down | look.history.links_told):
        sentence = "was up before, or is on the GPUs beside this one" if link in down else "is up again"
        detail = f"NVLink {link} is down: it {sentence}" if link in down else f"NVLink {link} {sentence}"
        part = f"nvlink{link}"
        yield look.tell("nvlink_link", health_of(link in down), detail, attributes={"link": str(link)}, part=part)


def _errors(look: GpuLook) -> Observation:
    added: dict[str, int] = {}
    for name, count in look.growth.added.items():
        kind = name.partition(".")[0]
        if kind in COUNTERS:
            added[kind] = added.get(kind, 0) + count
    found, links = [], set()
    for name in GRAVE:
        for link in _grown(look, name, above_per_s=0.0):
            links.add(link)
        if added.get(name):
            found.append(f"{added[name]} {name.removeprefix('nvlink_').replace('_', ' ')} errors")
    fast = _grown(look, BY_RATE, above_per_s=CRC_PER_S_MAX)
    if fast:
        links |= fast
        found.append(f"over {CRC_PER_S_MAX:.0f} CRC errors a second")
    listed = ",".join(str(link) for link in sorted(links))
    detail = f"{' and '.join(found)} on NVLinks {listed} since the last look" if found else "no new NVLink errors"
    health = health_of(bool(found)) if look.growth.over_s is not None else Health.OK
    values = {name.removeprefix("nvlink_"): float(count) for name, count in added.items()}
    return look.tell("nvlink_errors", health, detail, values=values, attributes={"links": listed})


def _grown(look: GpuLook, name: str, *, above_per_s: float) -> set[int]:
    """Links whose counter grew faster than this."""
    grown = set()
    for link in range(len(look.reading.by_link.get(name, ()))):
        per_s = look.growth.per_s(f"{name}.{link}")
        if per_s is not None and per_s > above_per_s:
            grown.add(link)
    return grown

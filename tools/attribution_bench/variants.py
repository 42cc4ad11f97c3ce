"""Other forms of the same incident, which must not change the verdict. Pure: a seed decides everything.

Clocks of machines differ, pipes interleave, names carry no meaning, and a fault hides among healthy lines. The last
variant takes evidence away: what a verdict rests on may be gone, so its cost is reported, not hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random

from attribution_bench.incidents import Event

JITTER_S = 30.0
NOISE_LINES = 1_000
Variant = Callable[[Sequence[Event], Random], list[Event]]


def jittered(events: Sequence[Event], random: Random) -> list[Event]:
    """Each offset off by up to 30 s, for each line by itself, and the file sorted by what the clocks now say."""
    moved = [
        each if each.offset_s is None else replace(each, offset_s=each.offset_s + random.uniform(-JITTER_S, JITTER_S))
        for each in events
    ]
    return sorted(moved, key=lambda each: each.offset_s or 0.0)


def without_offsets(events: Sequence[Event], _: Random) -> list[Event]:
    """No clock at all."""
    return [replace(each, offset_s=None) for each in events]


def shuffled_within_offset(events: Sequence[Event], random: Random) -> list[Event]:
    """Lines of the same offset in any order, those of one stream too."""
    keyed = [(each.offset_s or 0.0, random.random(), each) for each in events]
    return [each for _, _, each in sorted(keyed, key=lambda row: row[:2])]


def interleaved(events: Sequence[Event], random: Random) -> list[Event]:
    """Streams mixed in any way that keeps the order within each: what a collector of many pipes may deliver."""
    streams: dict[tuple[str, int, str], list[Event]] = {}
    for each in events:
        streams.setdefault(each.stream, []).append(each)
    turns = [stream for stream, lines in streams.items() for _ in lines]
    random.shuffle(turns)
    left = {stream: iter(lines) for stream, lines in streams.items()}
    return [next(left[stream]) for stream in turns]


def halved(events: Sequence[Event], random: Random) -> list[Event]:
    """Half of the lines, rounded up; the rest is lost."""
    kept = sorted(random.sample(range(len(events)), (len(events) + 1) // 2))
    return [events[place] for place in kept]


_PCI = re.compile(
    r"\b(?P<domain>[0-9a-fA-F]{4}(?:[0-9a-fA-F]{4})?):"
    r"(?P<bus>[0-9a-fA-F]{2}):(?P<slot>[0-9a-fA-F]{2})(?![0-9a-fA-F:])"
)
_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_IPV4 = re.compile(r"\b(?:10|172|192|198|203|100)(?:\.\d{1,3}){3}\b")
"""Private, shared and documentation ranges: loopback and link-local mean something, and versions have dots too."""
_PID = re.compile(
    r"(?:\bpid\W{0,4}|\bprocess (?:group )?|\bKilled process |\btask [\w:./-]+:|\bpython3?\[)(\d{3,7})\b", re.IGNORECASE
)


def renamed(events: Sequence[Event], random: Random) -> list[Event]:
    """Other node names, pids, addresses, PCI addresses and uuids, the same new one for the same old one everywhere."""
    names = sorted({each.node for each in events if each.node}, key=len, reverse=True)
    pids = sorted({found for each in events for found in _PID.findall(each.line)}, key=len, reverse=True)
    node = _any_of(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names)
    pid = _any_of(rf"(?<![\w.:]){each}(?![\w.])" for each in pids)
    new = {
        name: f"{random.choice(('n', 'gx', 'worker-', 'c'))}{random.randrange(10_000)}-{place}"
        for place, name in enumerate(names)
    }

    def again(kind: str, old: str, fresh: str) -> str:
        return new.setdefault(f"{kind} {old}", fresh)

    def line(text: str) -> str:
        text = node.sub(lambda found: new[found[0]], text)
        text = _IPV4.sub(lambda found: again("ip", found[0], _address(random)), text)
        text = _UUID.sub(lambda found: again("uuid", found[0], _uuid(found[0][:4], random)), text)
        text = _PCI.sub(lambda found: f"{found['domain']}:{again('pci', found[0][-5:].lower(), _slot(random))}", text)
        return pid.sub(lambda found: again("pid", found[0], str(random.randrange(1_000, 4_000_000))), text)

    return [replace(each, node=new.get(each.node, ""), line=line(each.line)) for each in events]


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns) or r"(?!)")


def _address(random: Random) -> str:
    return f"10.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}"


def _slot(random: Random) -> str:
    return f"{random.randrange(1, 255):02x}:00"


def _uuid(prefix: str, random: Random) -> str:
    digits = f"{random.getrandbits(128):032x}"
    return f"{prefix}{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def with_noise(healthy: Sequence[tuple[str, str]]) -> Variant:
    """1,000 healthy lines (source, text) put in anywhere, from the incident's own nodes and ranks and their peers."""

    def noisy(events: Sequence[Event], random: Random) -> list[Event]:
        nodes = sorted({each.node for each in events if each.node}) or [""]
        ranks = sorted({each.rank for each in events if each.rank is not None}) or [0]
        times = [each.offset_s for each in events if each.offset_s is not None] or [0.0]
        out = list(events)
        for source, text in random.choices(healthy, k=NOISE_LINES):
            out.insert(
                random.randrange(len(out) + 1),
                Event(
                    source=source,
                    line=text,
                    node=random.choice(nodes),
                    rank=random.choice(ranks) if source.startswith("worker") else None,
                    offset_s=round(random.uniform(min(times) - 600, max(times) + 60), 1),
                ),
            )
        return out

    return noisy

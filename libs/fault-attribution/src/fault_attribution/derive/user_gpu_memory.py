"""What stands behind "out of memory" on a GPU: this process, another one, or memory that should have been free.

PyTorch tells how much it asked for, how much the device has, how much is free and how much it holds itself. Derived:

    oom_request_too_large     one allocation asked for more than the whole device
    oom_by_itself             the failing process held most of the device: its batch, model or leak is too large
    oom_held_by_others        other processes held a good part of it
    oom_with_free_memory      the allocation would have fitted into what was free: fragmented, limited or broken memory
    gpu_memory_full           a reading of the device shows it as good as full
    gpu_memory_without_owner  a reading shows memory in use and no process that uses it
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from fault_attribution.derive.following import following
from fault_attribution.finding import Finding

READS = frozenset({"gpu_memory_at_oom", "gpu_memory_reading"})
MOST = 0.5
"""Of the device's memory: who holds more than half of it is why it is full."""
OTHERS_SHARE_MIN = 0.2
"""A context alone is 0.3 to 0.6 GB; a fifth of a device is a program that computes."""
FULL_SHARE_MIN = 0.93
"""Of the memory: what is left does not hold a library's workspace and code (cuBLAS and cuDNN load 0.2 to 1 GB)."""

_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"^([\d.]+) ?([KMGT]?)i?(?:B|bytes)$")


def gpu_memory(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive the kinds above."""
    for each in findings:
        if each.kind == "gpu_memory_at_oom":
            beside = [one for one in findings if _same_line(one, each)]
            kind, text = _reason(each, beside)
            if kind:
                yield _told(each, kind, text)
        elif each.kind == "gpu_memory_reading":
            used, total = (
                each.number_of("used") or each.number_of("used2"),
                each.number_of("total") or each.number_of("total2"),
            )
            if used is not None and total is not None and total > 0 and used / total >= FULL_SHARE_MIN:
                yield _told(each, "gpu_memory_full", f"{used:g} of {total:g} MiB in use")
            if used is not None and total and each.number_of("processes") == 0 and used / total >= OTHERS_SHARE_MIN:
                yield _told(each, "gpu_memory_without_owner", f"{used:g} MiB in use and no process is shown")


def size_bytes(text: str) -> float | None:
    """`1.13 GiB` in bytes; None when it is no size."""
    matched = _SIZE.match(text.strip())
    if matched is None:
        return None
    try:
        return float(matched[1]) * _BYTES[matched[2]]
    except ValueError:
        return None


def _same_line(one: Finding, other: Finding) -> bool:
    return (one.stream, one.number, one.node, one.rank) == (other.stream, other.number, other.node, other.rank)


def _reason(at: Finding, beside: Sequence[Finding]) -> tuple[str, str]:
    tried, total = _size(at.captures, "tried"), _size(at.captures, "total")
    if tried is None or not total:
        return "", ""
    free = _size(at.captures, "free", "free2")
    if tried > total:
        return "oom_request_too_large", f"asked for {at.captures['tried']} of a device with {at.captures['total']}"
    own = _size(at.captures, "reserved", "allocated")
    if own is None:
        own = max((size for one in beside if (size := _size(one.captures, "own")) is not None), default=None)
    others = sum(size for one in beside if (size := _size(one.captures, "held")) is not None)
    if own is None:
        return "", ""
    if free is not None and free >= tried and own < MOST * total:
        return "oom_with_free_memory", f"{at.captures['tried']} would have fitted into what was free"
    if own >= MOST * total:
        return "oom_by_itself", f"the process itself held {own / total:.0%} of the device"
    if others >= OTHERS_SHARE_MIN * total or (free is not None and total - own - free >= MOST * total):
        return "oom_held_by_others", f"the process itself held only {own / total:.0%} of the device"
    return "", ""


def _size(captures: Mapping[str, str], *names: str) -> float | None:
    for name in names:
        size = size_bytes(captures.get(name, ""))
        if size is not None:
            return size
    return None


def _told(base: Finding, kind: str, text: str) -> Finding:
    return following(base, kind, text, rule_id="derive.user_gpu_memory")

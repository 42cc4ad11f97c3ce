"""What readings of a machine's capacity mean: a full disk, full memory, too much load, a request that fits nowhere.

Derived:

    disk_full              a file system has no room left; captures mount, pct
    disk_roomy             every reading of the node's file systems shows room
    host_memory_full       next to no memory was available
    cpu_overloaded         several times as many tasks wanted a processor as there are
    request_exceeds_node   a waiting job asks one node for more than any node known has; captures what, asked, most
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fault_attribution.derive.following import following
from fault_attribution.finding import Finding, Role

READS = frozenset(
    {
        "disk_reading", "disk_percent", "memory_percent", "memory_reading", "cpu_load",
        "slurm_pending", "slurm_pending_gpus", "slurm_pending_memory",
    }
)  # fmt: skip
DISK_FULL_PCT = 99.0
"""df rounds up, and ext4 keeps 5 % for root: from here writes of a user fail."""
MEMORY_FULL_PCT = 97.0
"""The kernel reclaims before it kills; below this nothing is killed on a machine with default watermarks."""
LOAD_PER_CPU_MAX = 4.0
"""Load counts tasks in uninterruptible sleep too, so a load of twice the CPUs is ordinary under heavy input/output."""
_ALWAYS_FULL = re.compile(r"^/(?:snap|boot/efi|sys/firmware|run/media|media|mnt/cdrom)\b|^/usr/lib/wsl")
"""Read-only images are 100 % full by nature."""
_IMAGE = re.compile(r"loop\d|squashfs|iso9660|/dev/sr\d")
_UNITS = {"": 1.0, "B": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}
_AMOUNT = re.compile(r"^([\d.]+)\s*([KMGTP]?)i?B?$")


def capacity(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive the kinds above."""
    yield from _disks(findings)
    yield from _memory(findings)
    yield from _load(findings)
    yield from _requests(findings)


def amount(text: str | None) -> float | None:
    """`501Gi`, `7.3T`, `512` as a number of base units; None when it is none."""
    matched = _AMOUNT.match(text.strip()) if text else None
    if matched is None:
        return None
    try:
        return float(matched[1]) * _UNITS[matched[2]]
    except ValueError:
        return None


def _disks(findings: Sequence[Finding]) -> Iterator[Finding]:
    readings = [each for each in findings if each.kind in ("disk_reading", "disk_percent") and not _is_image(each)]
    full = [each for each in readings if (each.number_of("pct") or 0.0) >= DISK_FULL_PCT]
    for each in full:
        yield _told(
            each, "disk_full", Role.CAUSE, f"{each.captures.get('mount', 'a file system')} is full: {each.text}"
        )
    full_nodes = {each.node for each in full}
    for node in sorted({each.node for each in readings} - full_nodes):
        yield _told(
            next(each for each in readings if each.node == node), "disk_roomy", Role.CONTEXT, "the disks have room"
        )


def _is_image(reading: Finding) -> bool:
    mount, filesystem = reading.captures.get("mount", ""), reading.captures.get("filesystem", "")
    return _ALWAYS_FULL.search(mount) is not None or _IMAGE.search(filesystem) is not None


def _memory(findings: Sequence[Finding]) -> Iterator[Finding]:
    for each in findings:
        pct = each.number_of("pct") if each.kind == "memory_percent" else None
        if each.kind == "memory_reading":
            total = amount(each.captures.get("total"))
            available, used = amount(each.captures.get("available")), amount(each.captures.get("used"))
            if total and available is not None:
                pct = 100.0 * (1.0 - available / total)
            elif total and used is not None:
                pct = 100.0 * _same_unit(used, total) / total
        if pct is not None and MEMORY_FULL_PCT <= pct <= 110.0:
            yield _told(each, "host_memory_full", Role.CAUSE, f"{pct:.0f} % of the memory was in use: {each.text}")


def _same_unit(used: float, total: float) -> float:
    """`501.2 / 503.5 GiB` gives the unit only once."""
    for factor in (1.0, 2.0**10, 2.0**20, 2.0**30, 2.0**40):
        if 0.01 <= used * factor / total <= 1.1:
            return used * factor
    return used


def _load(findings: Sequence[Finding]) -> Iterator[Finding]:
    cpus = {each.node: count for each in findings if each.kind == "cpu_count" and (count := _cpus(each))}
    for each in findings:
        load = each.number_of("load") if each.kind == "cpu_load" else None
        count = cpus.get(each.node)
        if load is not None and count and load >= LOAD_PER_CPU_MAX * count:
            yield _told(each, "cpu_overloaded", Role.SYMPTOM, f"load {load:g} on {count:g} processors")


def _cpus(finding: Finding) -> float | None:
    return finding.number_of("cpus") or finding.number_of("nproc")


def _requests(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Compare only what is known of both; a job of several nodes is taken to spread evenly."""
    offers = [each for each in findings if each.kind in ("slurm_node", "slurm_node_tres")]
    for waiting, asked_of, name in (
        ("slurm_pending", "cpus", "processors"),
        ("slurm_pending_gpus", "gpus", "GPUs"),
        ("slurm_pending_memory", "mem", "memory"),
    ):
        most = max((value for each in offers if (value := amount(each.captures.get(asked_of)))), default=None)
        for each in findings:
            asked = amount(each.captures.get(asked_of)) if each.kind == waiting else None
            if asked is None or most is None:
                continue
            per_node = asked / _node_count(each, findings)
            if per_node > most:
                text = f"the job asks a node for {per_node:g} {name}; the largest node known has {most:g}"
                told = _told(each, "request_exceeds_node", Role.CAUSE, text)
                yield replace(
                    told, captures={**each.captures, "what": name, "asked": f"{per_node:g}", "most": f"{most:g}"}
                )


def _node_count(waiting: Finding, findings: Sequence[Finding]) -> float:
    job = waiting.captures.get("job")
    counts = [
        count
        for each in findings
        if each.kind == "slurm_pending" and each.captures.get("job") == job and (count := each.number_of("nodes"))
    ]
    return max(counts, default=1.0)


def _told(base: Finding, kind: str, role: Role, text: str) -> Finding:
    return following(base, kind, text, rule_id="derive.host_capacity", role=role)

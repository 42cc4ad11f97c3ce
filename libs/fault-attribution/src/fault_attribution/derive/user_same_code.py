"""The same error in many places, or again after a restart: what the same code does everywhere is the code's.

Derived:

    same_error_everywhere     one error on several ranks; captures error, ranks, nodes
    same_error_again          one error of one rank twice, with a restart or minutes between; captures error, times
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role

APART_MIN_S = 120.0
"""Between two times of one error: offsets of an incident are known to half a minute each at best."""
GROUPS_MAX = 64
"""Different errors of one incident that are compared; further ones say no more."""

_WORKER = (Source.WORKER_STDERR, Source.WORKER_STDOUT)
_DIGITS = re.compile(r"0x[0-9a-f]+|\d+|\[rank\d+\]:?")


def same_code(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive the kinds above."""
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for each in findings:
        if each.source in _WORKER and each.role in (Role.CAUSE, Role.SYMPTOM):
            groups[each.kind, _shape(each.text)].append(each)
    for key in sorted(groups)[:GROUPS_MAX]:
        yield from _everywhere(groups[key])
        yield from _again(groups[key], findings)


def _shape(text: str) -> str:
    return _DIGITS.sub("", text)[:160].strip()


def _everywhere(group: Sequence[Finding]) -> Iterator[Finding]:
    ranks = {each.rank for each in group if each.rank is not None}
    nodes = {each.node for each in group if each.node}
    if len(ranks) > 1:
        captures = {"error": group[0].kind, "ranks": str(len(ranks)), "nodes": str(len(nodes))}
        yield _told("same_error_everywhere", group, captures, f"{group[0].kind} on {len(ranks)} ranks")


def _again(group: Sequence[Finding], findings: Sequence[Finding]) -> Iterator[Finding]:
    by_rank: dict[tuple[str, int | None], list[Finding]] = defaultdict(list)
    for each in group:
        by_rank[each.node, each.rank].append(each)
    for (node, rank), same in sorted(by_rank.items(), key=lambda item: (item[0][0], item[0][1] or 0)):
        times = sum(each.count for each in same)
        if rank is None or times < 2:
            continue
        at = [each.at_s for each in same if each.at_s is not None]
        ends = [each for each in findings if each.kind == "exit_failed" and each.rank == rank and each.node == node]
        apart = len(at) > 1 and max(at) - min(at) >= APART_MIN_S
        if apart or sum(each.count for each in ends) > 1:
            captures = {"error": same[0].kind, "times": str(times)}
            yield _told("same_error_again", same, captures, f"{same[0].kind} on rank {rank} came {times} times")


def _told(kind: str, group: Sequence[Finding], captures: dict[str, str], text: str) -> Finding:
    first = min(group, key=lambda each: each.place)
    return Finding(
        finding_id=f"{kind}:{first.finding_id}",
        kind=kind,
        role=Role.CONTEXT,
        source=first.source,
        node=first.node,
        rank=first.rank,
        captures=captures,
        text=text,
        rule_id="derive.user_same_code",
        stream=first.stream,
        number=first.number,
        because=tuple(each.finding_id for each in group)[:16],
    )

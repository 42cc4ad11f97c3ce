"""Who waited in a collective, who did not come, and whether ranks were in different collectives.

A time-out is written by those that waited. The culprit is a rank that is known to exist and wrote none, or one that a
report names, or the one that enqueued least. Ranks of different process groups are never compared.

    missing_rank             a rank that did not come; captures how (told, silent, root), waiting (ranks that waited)
    rank_behind              a rank that is fewer collectives ahead than the others; captures behind_by
    mismatched_collectives   ranks were in different collectives, or in one with different sizes or types
    all_ranks_waited         every known rank waited, so no rank is missing (one finding)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fault_attribution.derive.in_order import in_order
from fault_attribution.finding import Finding, Role

WAITED = frozenset(
    {
        "nccl_timeout",
        "collective_timeout",
        "store_key_timeout",
        "store_barrier_timeout",
        "store_clients_missing",
        "collective_stalled",
    }
)
"""Kinds that a rank writes which waited in vain."""
NOTICED = frozenset(
    {
        "peer_closed", "nccl_remote_error", "nccl_comm_aborted", "nccl_dump_signal", "nccl_proxy_failed", "store_lost",
        "rendezvous_closed", "rendezvous_shutdown_failed", "exit_barrier_failed", "ib_retry_exceeded",
        "efa_peer_unresponsive", "jax_task_unhealthy",
    }
)  # fmt: skip
"""Kinds that a rank writes when another one is gone: it was there."""
READS = WAITED | {
    "collective_not_joined", "jax_task_unhealthy", "nccl_work_status", "collective_counts_differ", "nccl_coll_op",
}  # fmt: skip
RANKS_MAX = 100_000
MISSING_MAX = 32
"""Findings of missing ranks; a longer list is a job that never came together, and no rank's fault."""
_SAME_SIZE = (
    "ALLREDUCE",
    "BROADCAST",
    "ALLGATHER",
    "_ALLGATHER_BASE",
    "REDUCE",
    "REDUCE_SCATTER",
    "_REDUCE_SCATTER_BASE",
)
_SAME_COUNT = ("AllReduce", "Broadcast", "AllGather", "ReduceScatter", "Reduce")
_RANK = re.compile(r"\[?\b[Rr]ank ?(\d+)\]")
_GROUP = re.compile(r"\bPG (?:ID )?(\d+)(?: PG GUID (\d+))?")


def collectives(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive missing_rank, rank_behind, mismatched_collectives and all_ranks_waited."""
    # A stable order: what is derived must not depend on how streams interleave.
    findings = in_order(findings)
    waited: dict[int, Finding] = {}
    for each in findings:
        rank = rank_of(each)
        if each.kind in WAITED and rank is not None:
            waited.setdefault(rank, each)
    yield from _missing(findings, waited)
    yield from _behind(findings)
    yield from _mismatched(findings)


def rank_of(finding: Finding) -> int | None:
    """Its rank, or the one that the line itself names."""
    if finding.rank is not None:
        return finding.rank
    matched = _RANK.search(finding.text)
    return int(matched[1]) if matched is not None else None


def _missing(findings: Sequence[Finding], waited: Mapping[int, Finding]) -> Iterator[Finding]:
    told = {rank: each for each in findings for rank in _named(each)}
    there = {rank for each in findings if each.kind in NOTICED and (rank := rank_of(each)) is not None}
    known: dict[int, Finding] = {}
    for each in findings:
        rank = rank_of(each)
        if rank is not None:
            known.setdefault(rank, each)
    anybody = next(iter(waited.values()), None)
    names = {rank: ("told", each) for rank, each in told.items() if rank not in waited}
    if anybody is not None:
        acted = {rank for each in findings if (rank := rank_of(each)) is not None and _acts(each)}
        for rank, each in known.items():
            if rank not in waited and (rank not in there or rank in acted):
                names.setdefault(rank, ("silent", each))
        size = world_size(findings)
        unseen = [rank for rank in range(size) if rank not in known] if size <= RANKS_MAX else []
        if unseen and len(unseen) < len(waited) and len(unseen) <= max(1, size // 4):
            for rank in unseen:
                names.setdefault(rank, ("silent", anybody))
        if not names and len(waited) > 1:
            yield _of(anybody, "all_ranks_waited", None, {"waiting": _list(waited)}, "every known rank waited")
    for rank, (how, each) in sorted(names.items())[:MISSING_MAX]:
        base = known.get(rank)
        text = f"rank {rank} did not come to the collective" + (f" in which {_list(waited)} waited" if waited else "")
        captures = {"how": how, "waiting": str(len(waited))}
        yield _of(base or replace(each, node="", device="", process=""), "missing_rank", rank, captures, text)


def _named(finding: Finding) -> list[int]:
    if finding.kind == "store_key_timeout":
        return [int(finding.captures["root"])] if finding.captures.get("root", "").isdigit() else []
    if finding.kind not in ("collective_not_joined", "jax_task_unhealthy"):
        return []
    return [int(part) for part in re.findall(r"\d+", finding.captures.get("missing", ""))[:MISSING_MAX]]


def _acts(finding: Finding) -> bool:
    """Whether a rank shows a life of its own beside noticing others."""
    return finding.role in (Role.PROGRESS, Role.CAUSE) or finding.kind in (
        "exit_clean",
        "python_exception",
        "rank_skips",
    )


def world_size(findings: Sequence[Finding]) -> int:
    """The largest number of ranks that anything states; 0 when nothing does."""
    stated = [int(each.captures["world_size"]) for each in findings if each.captures.get("world_size", "").isdigit()]
    return max(stated, default=0)


def _behind(findings: Sequence[Finding]) -> Iterator[Finding]:
    groups: dict[str, dict[int, tuple[int, Finding]]] = {}
    for each in findings:
        number = each.number_of("enqueued") if each.kind == "nccl_work_status" else None
        if each.kind == "nccl_timeout":
            number = each.number_of("seq")
        rank = rank_of(each)
        if number is not None and rank is not None:
            key = f"{each.kind}/{_group(each)}"
            known = groups.setdefault(key, {})
            if rank not in known or number > known[rank][0]:
                known[rank] = (int(number), each)
        if each.kind == "collective_counts_differ" and each.rank is not None:
            gap = (each.number_of("count_ahead") or 0) - (each.number_of("count_behind") or 0)
            if gap > 0:
                text = f"rank {each.rank} has launched {gap:g} collectives fewer than the others"
                yield _of(each, "rank_behind", each.rank, {"behind_by": f"{gap:g}", "how": "counted"}, text)
    for known in groups.values():
        numbers = sorted({number for number, _ in known.values()})
        low = [rank for rank, (number, _) in known.items() if number == numbers[0]]
        if len(numbers) > 1 and len(low) * 2 <= len(known):
            for rank in sorted(low)[:MISSING_MAX]:
                text = f"rank {rank} is at collective {numbers[0]} while others are at {numbers[-1]}"
                captures = {"behind_by": str(numbers[-1] - numbers[0]), "how": "enqueued"}
                yield _of(known[rank][1], "rank_behind", rank, captures, text)


def _mismatched(findings: Sequence[Finding]) -> Iterator[Finding]:
    calls: dict[tuple[str, str], dict[int, dict[str, Finding]]] = {}
    for each in findings:
        rank = rank_of(each)
        if rank is None or each.kind not in ("nccl_timeout", "nccl_coll_op"):
            continue
        if each.kind == "nccl_timeout":
            number, size = each.captures.get("seq", ""), f"{each.captures.get('numel_in', '')}"
            key, same = (_group(each), number), each.captures.get("op", "") in _SAME_SIZE
        else:
            number, size = each.captures.get("op_count", ""), each.captures.get("count_elements", "")
            size += f" of type {each.captures.get('datatype', '')}"
            key, same = (
                ("op/" + each.captures.get("world_size", ""), number),
                each.captures.get("op", "") in _SAME_COUNT,
            )
        call = each.captures.get("op", "") + (f" of {size} elements" if same and size.strip() else "")
        calls.setdefault(key, {}).setdefault(rank, {})[call] = each
    for (_, number), ranks in sorted(calls.items()):
        # More calls of one rank under one number are several communicators: which belongs to which is not known.
        single = {rank: next(iter(known.items())) for rank, known in ranks.items() if len(known) == 1}
        by_call: dict[str, list[int]] = {}
        for rank, (call, _) in single.items():
            by_call.setdefault(call, []).append(rank)
        if len(by_call) < 2:
            continue
        few = min(sorted(by_call.items()), key=lambda one: (len(one[1]), one[0]))
        rank = min(few[1])
        parts = "; ".join(f"{_list(ranks_of)}: {call}" for call, ranks_of in sorted(by_call.items()))
        text = f"ranks are in different collectives at {'number ' + number if number else 'the same time'}: {parts}"
        yield _of(single[rank][1], "mismatched_collectives", rank, {"how": "compared"}, text, Role.CAUSE)


def _group(finding: Finding) -> str:
    matched = _GROUP.search(finding.text)
    return "default" if matched is None or matched[1] == "0" else f"{matched[1]}/{matched[2] or ''}"


def _list(ranks: Mapping[int, object] | Sequence[int]) -> str:
    known = sorted(ranks)
    shown = ", ".join(str(rank) for rank in known[:8])
    more = f" and {len(known) - 8} more" if len(known) > 8 else ""
    return f"rank{'s' if len(known) > 1 else ''} {shown}{more}"


def _of(
    base: Finding, kind: str, rank: int | None, captures: Mapping[str, str], text: str, role: Role = Role.CONTEXT
) -> Finding:
    return replace(
        base,
        finding_id=f"{kind}:{'' if rank is None else rank}:{base.finding_id}",
        kind=kind,
        role=role,
        rank=rank,
        captures=dict(captures),
        text=text,
        rule_id="derive.collectives",
        count=1,
        because=(base.finding_id,),
    )

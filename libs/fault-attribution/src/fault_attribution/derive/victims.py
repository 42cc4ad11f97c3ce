"""Findings that only say that another one failed, told apart from those that have a reason of their own.

first_failing_rank   the rank with a reason of its own while others only noticed that a peer was gone
victims_only         somebody noticed a failed peer or waited in vain, and nothing says why (one finding)
many_nodes_lost_link links of several nodes failed: what they share is to be blamed, not each of them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fault_attribution.derive.collectives import NOTICED, WAITED, rank_of
from fault_attribution.derive.following import following
from fault_attribution.derive.in_order import in_order
from fault_attribution.finding import Finding, Role

FOLLOWS = frozenset(
    {
        "nccl_watchdog_abort", "nccl_work_status", "nccl_system_error", "nccl_internal_error", "nccl_cuda_error",
        "library_exception", "launcher_signalled", "sigterm_received", "mpi_abort", "mpi_rank_died", "mpi_job_failed",
        "pmix_failed", "rendezvous_timeout", "collective_not_joined", "collective_counts_differ", "job_stalled",
        "ib_completion_error", "native_terminate", "program_gave_up", "step_cancelled", "nccl_heartbeat_stuck",
    }
)  # fmt: skip
"""Symptoms that come with any failure of a peer as well."""
LINK_TROUBLE = frozenset({"nic_link_down", "ib_port_error", "ib_port_down"})
READS = NOTICED | WAITED | LINK_TROUBLE
NODES_MIN = 3
"""Links of one machine fail by themselves; of three at once hardly ever (switch, subnet manager, fabric change)."""


def victims(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive first_failing_rank, victims_only and many_nodes_lost_link."""
    # A stable order: what is derived must not depend on how streams interleave.
    findings = in_order(findings)
    noticed = [each for each in findings if each.kind in NOTICED or each.kind in WAITED]
    yield from _links(findings)
    if not noticed:
        return
    own: dict[int, Finding] = {}
    reasons = [each for each in findings if _reason(each)]
    for each in reasons:
        rank = rank_of(each)
        if rank is not None:
            own.setdefault(rank, each)
    others = {rank for each in noticed if (rank := rank_of(each)) is not None} - set(own)
    if own and others and len(own) <= len(others):
        for rank, each in sorted(own.items())[:8]:
            text = f"rank {rank} failed for a reason of its own, others only noticed it: {each.text}"
            yield _of(each, "first_failing_rank", text, rank)
    if not reasons:
        yield _of(noticed[0], "victims_only", "peers are gone or did not come, and no evidence says why", None)


def _reason(finding: Finding) -> bool:
    if finding.kind in NOTICED or finding.kind in WAITED or finding.kind in FOLLOWS:
        return False
    return finding.role in (Role.CAUSE, Role.SYMPTOM) and finding.rule_id != "derive.collectives"


def _links(findings: Sequence[Finding]) -> Iterator[Finding]:
    broken = [each for each in findings if each.kind in LINK_TROUBLE and each.node]
    nodes = sorted({each.node for each in broken})
    if len(nodes) >= NODES_MIN:
        text = f"links of {len(nodes)} nodes failed: {', '.join(nodes[:8])}"
        yield replace(_of(broken[0], "many_nodes_lost_link", text, None), node="", device="")


def _of(base: Finding, kind: str, text: str, rank: int | None) -> Finding:
    return following(base, kind, text[:400], rule_id="derive.victims", rank=rank, count=1)

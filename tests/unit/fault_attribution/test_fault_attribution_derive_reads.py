"""What a derivation says it reads is all that it can begin with: it is not run where nothing of it is there."""

from __future__ import annotations

from itertools import product

import pytest

from fault_attribution.checking.kind_names import KindNames
from fault_attribution.derive import DERIVATIONS, Derivation, complete
from fault_attribution.derive.in_order import InOrder, in_order
from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role
from fault_attribution.loading.rule_files import load_rules

CAPTURES = {
    "value": "97", "pct": "100", "load": "900", "cpus": "1", "signal": "9", "code": "1", "world_size": "4",
    "seq": "1", "step": "3", "path": "/a", "node": "other", "enqueued": "3", "missing": "1", "severity": "Fatal",
    "share": "90", "tried": "9 GiB", "total": "1 GiB", "mask": "0xff", "used": "99", "version": "2", "root": "1",
}  # fmt: skip


def _everything_else(derivation: Derivation) -> list[Finding]:
    """Findings of every kind that is known, but for those that it reads."""
    open_kinds = ["xid_79", "xid_74", "sxid_12028", "observed:something", "a_kind_that_nobody_knows"]
    names = sorted({*KindNames(load_rules().signatures).names, *open_kinds})
    assert derivation.reads is not None
    kinds = [each for each in names if not derivation.concerns({each})]
    return [
        Finding(
            finding_id=f"{kind}:{node}:{rank}", kind=kind, role=role, source=source, node=node, rank=rank, device="0",
            captures={**CAPTURES, "name": kind}, text="2030-01-01T10:00:00 rank 1", at_s=1_000.0 * rank, stream=node,
            number=rank,
        )
        for kind in kinds
        for node, (rank, role), source in product(
            ("a", "b", "c"), ((0, Role.CAUSE), (1, Role.SYMPTOM)), (Source.WORKER_STDERR, Source.KMSG)
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    "derivation", [each for each in DERIVATIONS if each.reads is not None], ids=lambda each: each.derive.__name__
)
def test_nothing_follows_from_what_a_derivation_does_not_read(derivation: Derivation) -> None:
    others = _everything_else(derivation)
    assert len(others) > 1_000
    assert [each.kind for each in derivation.derive(in_order(others))] == []


def test_a_derivation_that_is_left_out_changes_nothing() -> None:
    """Run all of them whatever is there: the same findings in the same order."""
    kinds = ("exit_status", "xid_79", "nccl_timeout", "python_exception", "peer_closed", "step_done", "benchmark")
    always = tuple(each._replace(reads=None, ordered=False) for each in DERIVATIONS)
    for left_out in kinds:
        some = [
            Finding(finding_id=f"{kind}/{rank}", kind=kind, role=Role.SYMPTOM, node=f"n{rank}", rank=rank,
                    captures=CAPTURES, source=Source.WORKER_STDERR, stream=f"s{rank}", number=number)
            for number, kind in enumerate(kinds) if kind != left_out for rank in (1, 0)
        ]  # fmt: skip
        assert complete(some) == complete(some, always)


def test_findings_are_put_in_order_once() -> None:
    late = Finding(finding_id="b", kind="k", role=Role.CAUSE, node="z")
    early = Finding(finding_id="a", kind="k", role=Role.CAUSE, node="a")
    ordered = in_order([late, early])
    assert ordered == (early, late)
    assert in_order(ordered) is ordered
    assert isinstance(ordered, InOrder)

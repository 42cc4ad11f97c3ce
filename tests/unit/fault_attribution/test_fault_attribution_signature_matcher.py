"""What one line says: captures, places, overrides, sources, and states of rules."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signature_rig import signature

from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.finding import TEXT_MAX, Role
from fault_attribution.matching.signature_matcher import SignatureMatcher, SignatureRefused
from fault_attribution.signature import RuleState, Signature


def kinds(signatures: list[Signature], text: str, source: Source = Source.UNKNOWN) -> list[str]:
    return [each.kind for each in SignatureMatcher(signatures).findings(EvidenceLine(text=text, source=source))]


def test_groups_become_captures_and_fields_and_fill_in_the_kind() -> None:
    xid = signature(
        "xid.any",
        r"Xid \(PCI:(?P<device>[0-9a-f:.]+)\): (?P<code>\d+)(?:, pid=(?P<pid>\d+))?",
        kind="xid_{code}",
        sets={"layer": "driver"},
    )
    (found,) = SignatureMatcher([xid]).findings(
        EvidenceLine(text="NVRM: Xid (PCI:0000:18:00): 79, pid=12", node="n1", stream="dmesg", number=7)
    )
    assert (found.kind, found.device, found.process, found.node) == ("xid_79", "0000:18:00", "12", "n1")
    assert dict(found.captures) == {"device": "0000:18:00", "code": "79", "pid": "12", "layer": "driver"}
    assert found.finding_id == "dmesg:7:xid.any"


def test_a_known_rank_is_not_replaced_and_an_absurd_one_is_not_taken() -> None:
    matcher = SignatureMatcher([signature("a.rank", r"rank (?P<rank>\d+) died")])
    assert matcher.findings(EvidenceLine(text="rank 3 died"))[0].rank == 3
    assert matcher.findings(EvidenceLine(text="rank 3 died", rank=9))[0].rank == 9
    assert matcher.findings(EvidenceLine(text="rank 33333333333333333333 died"))[0].rank is None


def test_a_specific_signature_overrides_a_generic_one_on_its_own_line_only() -> None:
    signatures = [
        signature("a.generic", "NCCL error"),
        signature("a.specific", "NCCL error: remote closed", overrides=frozenset({"a.generic"})),
    ]
    assert kinds(signatures, "NCCL error: remote closed") == ["a_specific"]
    assert kinds(signatures, "NCCL error: other") == ["a_generic"]


def test_an_observed_signature_is_shown_and_no_rule_can_name_what_it_found() -> None:
    signatures = [
        signature("a.generic", "NCCL error"),
        signature(
            "a.new", "NCCL error: x", overrides=frozenset({"a.generic"}), state=RuleState.OBSERVE, role=Role.CAUSE
        ),
        signature("a.off", "NCCL", state=RuleState.OFF),
    ]
    found = SignatureMatcher(signatures).findings(EvidenceLine(text="NCCL error: x"))
    assert [(each.kind, each.role) for each in found] == [
        ("a_generic", Role.SYMPTOM),
        ("observed:a_new", Role.CONTEXT),
    ]


def test_a_signature_looks_at_lines_of_its_sources_and_of_unknown_ones() -> None:
    signatures = [signature("a.kernel", "Out of memory", sources=frozenset({Source.KMSG}))]
    assert kinds(signatures, "Out of memory", Source.KMSG) == ["a_kernel"]
    assert kinds(signatures, "Out of memory", Source.UNKNOWN) == ["a_kernel"]
    assert kinds(signatures, "Out of memory", Source.WORKER_STDERR) == []


def test_a_match_far_behind_in_a_long_line_is_what_a_person_is_shown() -> None:
    (found,) = SignatureMatcher([signature("a.x", "needle")]).findings(EvidenceLine(text="x" * 9_000 + "needle here"))
    assert "needle here" in found.text
    assert len(found.text) <= TEXT_MAX


@pytest.mark.parametrize("pattern", ["a(b", r"(a)\1", "(?=x)abc", r"(.{0,100}x){9}abc"])
def test_a_pattern_that_cannot_be_used_is_refused_with_file_and_line(pattern: str) -> None:
    bad = signature("a.bad", pattern, file="rules/x.yaml", line=12)
    with pytest.raises(SignatureRefused, match=re.escape("rules/x.yaml:12: a.bad: the pattern is")):
        SignatureMatcher([bad])


PATTERNS = ("abc", r"(?i)ERROR", r"err(?:or)?s? (?P<n>\d+)", r"bcd|cde", r"\d+", "損失 (?P<x>.)", "r: ", "(?i)bc")
PIECES = st.sampled_from(["abc", "bcd", "cde", "err", "or", "s", " 1", "Error", "損失 ", "r: ", "\x00", "\ud800", "é"])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join), st.sets(st.sampled_from(PATTERNS), min_size=1))
def test_the_prefilter_loses_nothing(text: str, chosen: set[str]) -> None:
    signatures = [signature(f"a.{n}", pattern) for n, pattern in enumerate(PATTERNS) if pattern in chosen]
    shown = text.encode(errors="replace").decode(errors="replace")
    expected = [each.kind for each in signatures if re.search(each.pattern, shown)]
    assert kinds(signatures, text) == expected

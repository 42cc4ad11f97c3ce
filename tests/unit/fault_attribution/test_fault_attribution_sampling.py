"""What matches all the time is sampled: its first and last are right, and everything else is found as before."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signature_rig import signature

from fault_attribution.finding import Finding, Role
from fault_attribution.matching import sampling
from fault_attribution.matching.hit import LineFacts
from fault_attribution.matching.signature_matcher import SignatureMatcher
from fault_attribution.matching.stream_scan import StreamScan

SIGNATURES = [
    signature("t.step", r"step (?P<step>\d+)", role=Role.PROGRESS),
    signature("t.iter", r"(?i)Iter=(?P<step>\d+)", role=Role.PROGRESS),
    signature("t.oom", r"out of memory (?P<n>\d+)", role=Role.CAUSE),
    signature("t.fine", r"failed to write step (?P<step>\d+), trying again", role=Role.BENIGN),
]


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SAMPLED_FROM", 50)


def scan_of(matcher: SignatureMatcher, data: bytes, piece: int = 4_096, **fields: object) -> StreamScan:
    scan = StreamScan(matcher, stream="s", **fields)  # type: ignore[arg-type]
    for at in range(0, len(data), piece):
        scan.feed(data[at : at + piece])
    return scan


def last(findings: list[Finding], kind: str) -> Finding:
    return [each for each in findings if each.kind == kind][-1]


def test_the_first_and_the_last_step_are_right_and_errors_between_are_all_counted() -> None:
    lines = [f"step {n}" if n % 10 else f"out of memory {n % 20}" for n in range(1, 5_001)]
    scan = scan_of(SignatureMatcher(SIGNATURES), "\n".join([*lines, "ITER=1", "idle", ""]).encode())
    found = scan.end()
    assert scan._scan.sampling.bits == 1
    assert found[0].captures["step"] == "1"
    assert (last(found, "t_step").captures["step"], last(found, "t_step").number) == ("4999", 4_999)
    assert sum(each.count for each in found if each.kind == "t_oom") == 500
    assert last(found, "t_iter").number == 5_001
    assert 50 <= sum(each.count for each in found if each.kind == "t_step") < 4_500


def test_a_last_step_far_in_front_of_the_end_of_a_block_is_found() -> None:
    data = b"".join(b"Iter=%d\n" % n for n in range(600)) + b"quiet\n" * 3_000 + b"iTER=777\n" + b"quiet\n" * 3_000
    found = scan_of(SignatureMatcher(SIGNATURES), data, 16_384).end()
    assert last(found, "t_iter").captures["step"] == "777"


def test_each_rank_of_a_merged_stream_keeps_its_last_step() -> None:
    def read(line: bytes, facts: LineFacts) -> LineFacts:
        return facts._replace(rank=int(line.partition(b":")[0][1:]))

    lines = [f"r{rank}: step {n}" for n in range(300) for rank in range(16) if rank != 5 or n < 250]
    found = scan_of(SignatureMatcher(SIGNATURES), "\n".join([*lines, ""]).encode(), read=read).end()
    steps = {each.rank: each.captures["step"] for each in found}
    assert steps == {rank: "249" if rank == 5 else "299" for rank in range(16)}


def test_a_sampled_line_is_not_an_unknown_error() -> None:
    data = b"".join(b"failed to write step %d, trying again\n" % n for n in range(2_000)) + b"failed to write y\n"
    found = scan_of(SignatureMatcher(SIGNATURES), data).end()
    assert [(each.number, each.count) for each in found if each.kind == "unrecognised"] == [(2_001, 1)]


def test_a_cause_and_what_overrides_another_are_never_sampled() -> None:
    signatures = [
        signature("t.cause", "aaa", role=Role.CAUSE),
        signature("t.over", "aaab", role=Role.BENIGN, overrides=frozenset({"t.cause"})),
    ]
    scan = scan_of(SignatureMatcher(signatures), b"aaa\naaab\n" * 3_000)
    assert scan._scan.sampling.bits == 0
    assert {each.kind: each.count for each in scan.end() if each.count > 1} == {"t_cause": 2_999, "t_over": 2_999}


def test_so_many_prefilters_are_kept_and_then_nothing_more_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fault_attribution.matching.stream_pass.BUILDS_MAX", 2)
    matcher = SignatureMatcher(SIGNATURES)
    steps, iters = b"step 1\n" * 3_000, b"iter=1\n" * 3_000
    assert scan_of(matcher, steps)._scan.sampling.bits == 1
    other = scan_of(matcher, iters)
    assert other._scan.sampling.bits == 0
    assert sum(each.count for each in other.end()) == 3_000


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([b"step 1", b"iter=2", b"x", b"", b"\xffstep 3", b"q" * 5_000]), max_size=40))
def test_last_lines_are_all_lines_that_match_from_the_end(lines: list[bytes]) -> None:
    matcher = SignatureMatcher(SIGNATURES)
    kept = sampling.Sampling(matcher)
    kept.grow({0: 50, 1: 50})
    text = b"".join(line + b"\n" for line in lines)
    found = [(start, line) for start, line, _ in kept.last_lines(text, [3])]
    expected, at = [], 0
    for line in lines:
        if b"step" in line or b"iter" in line:
            expected.append((at, line.decode(errors="replace").encode()))
        at += len(line) + 1
    assert found == expected[::-1]

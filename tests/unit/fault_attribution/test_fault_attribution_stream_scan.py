"""Streams in pieces: numbers of lines, folding, frames, unknown errors, and bounded memory whatever comes."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signature_rig import signature

from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.finding import Finding, Role
from fault_attribution.matching import finding_fold, stream_scan
from fault_attribution.matching.hit import LineFacts
from fault_attribution.matching.pattern import LINE_BYTES_MAX
from fault_attribution.matching.signature_matcher import SignatureMatcher
from fault_attribution.matching.stream_scan import StreamScan, read_lines

MATCHER = SignatureMatcher(
    [
        signature("t.step", r"step (?P<step>\d+)", role=Role.PROGRESS),
        signature("t.oom", "CUDA out of memory", role=Role.CAUSE),
        signature("t.rank", r"peer (?P<peer>\d+) is gone", role=Role.VICTIM),
        signature("t.kernel", "machine check", sources=frozenset({Source.KMSG})),
    ]
)


def scanned(*pieces: bytes, **fields: object) -> list[Finding]:
    scan = StreamScan(MATCHER, stream="s", **fields)  # type: ignore[arg-type]
    for piece in pieces:
        scan.feed(piece)
    return scan.end()


def brief(findings: list[Finding]) -> list[tuple[str, int, int]]:
    return [(each.kind, each.number, each.count) for each in findings]


def test_lines_are_numbered_as_an_editor_does() -> None:
    data = b"x\nstep 1\r\n 10%\r 20%\rCUDA out of memory\nstep 2"
    assert brief(scanned(data)) == [("t_step", 2, 1), ("t_oom", 3, 1), ("t_step", 4, 1)]


TEXT = b"a\r\nstep 1\n\n 1%\r 2%\rstep 2\rstep 2\nCUDA out of memory\r\npeer 1 is gone\nERROR: odd\n" * 2 + b"step 3"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, len(TEXT) - 1), max_size=8))
def test_nothing_depends_on_where_the_stream_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    assert scanned(*(TEXT[a:b] for a, b in pairwise(places))) == scanned(TEXT)


def test_equal_findings_are_one_with_a_count_and_the_last_is_kept() -> None:
    found = scanned(b"peer 1 is gone\n" * 1_000 + b"peer 2 is gone\n" + b"peer 1 is gone\n")
    assert brief(found) == [("t_rank", 1, 1_000), ("t_rank", 1001, 1), ("t_rank", 1002, 1)]
    assert len({each.finding_id for each in found}) == 3


def test_of_many_different_ones_the_first_and_the_last_are_kept_and_all_are_counted() -> None:
    found = scanned(b"".join(b"peer %d is gone\n" % n for n in range(10_000)))
    assert len(found) == finding_fold.DISTINCT_MAX + 2
    assert (found[0].captures["peer"], found[-1].captures["peer"]) == ("0", "9999")
    assert sum(each.count for each in found) == 10_000


def test_ranks_of_one_merged_stream_are_kept_apart() -> None:
    def read(line: bytes, facts: LineFacts) -> LineFacts:
        return facts._replace(rank=int(line[1:2]), source=Source.WORKER_STDERR)

    found = scanned(
        b"0: CUDA out of memory\n1: CUDA out of memory\n".replace(b"0:", b"r0").replace(b"1:", b"r1"), read=read
    )
    assert [(each.rank, each.source) for each in found] == [(0, Source.WORKER_STDERR), (1, Source.WORKER_STDERR)]


def test_what_the_line_tells_of_its_source_decides_which_signatures_count() -> None:
    def read(line: bytes, facts: LineFacts) -> LineFacts:
        return facts._replace(source=Source.KMSG if b"kernel:" in line else Source.WORKER_STDERR)

    assert brief(scanned(b"kernel: machine check\nuser: machine check\n", read=read)) == [("t_kernel", 1, 1)]


def test_unknown_errors_are_kept_by_shape_and_healthy_words_are_not() -> None:
    lines = [
        b"RuntimeError: odd thing 17 at /a/b", b"RuntimeError: odd thing 18 at /c/d", b"[ERROR] no luck",
        b"my.module.CustomError", b"[rank3]: a.FooError: x", b"rpc failed: deadline",
        b"eval done, errors: 0, failed=0", b"loss error 0.5", b"no errors found", b"NCCL_ASYNC_ERROR_HANDLING=1",
        b"val_error: 0.25", b"0 failed, 12 passed",
    ]  # fmt: skip
    found = scanned(b"\n".join(lines))
    assert {each.role for each in found} == {Role.UNRECOGNISED}
    assert [(each.number, each.count) for each in found] == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]


def test_unknown_errors_are_bounded() -> None:
    words = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(600)]
    found = scanned(b"".join(f"ERROR {word}\n".encode() for word in words * 20))
    assert len(found) <= 2 * finding_fold.SHAPES_MAX + 2
    assert sum(each.count for each in found) == 12_000


def test_the_innermost_frame_of_a_traceback_is_kept() -> None:
    data = (
        b"Traceback (most recent call last):\n"
        b'  File "/app/train.py", line 9, in main\n    step()\n'
        b'  File "/app/model.py", line 70, in forward\n    y = f(x)\n'
        b"torch.OutOfMemoryError: CUDA out of memory. Tried\nstep 5\n"
        b'  File "/app/alone.py", line 1, in nothing_follows\n'
    )
    found = {each.kind: each for each in scanned(data)}
    assert found.keys() == {"traceback_frame", "t_oom", "t_step"}
    assert found["traceback_frame"].captures == {"file": "/app/model.py", "line": "70", "function": "forward"}
    assert (found["traceback_frame"].role, found["traceback_frame"].number) == (Role.CONTEXT, 4)


@pytest.mark.parametrize(
    "piece", [b"x" * 65_536, b"\x00\xff" * 32_768, b"error step " * 6_000], ids=["x", "nul", "hits"]
)
def test_a_line_without_end_takes_bounded_memory_and_what_follows_is_found(piece: bytes) -> None:
    scan = StreamScan(MATCHER, stream="s")
    for _ in range(300):
        scan.feed(piece)
        assert len(scan._rest) <= LINE_BYTES_MAX + 1
    scan.feed(b"CUDA out of memory\nCUDA out of memory\n")
    found = [each for each in scan.end() if each.kind == "t_oom"]
    assert brief(found) == [("t_oom", 2, 1)]
    assert scan.cut_lines == 1


def test_the_first_part_of_a_long_line_in_one_piece_is_looked_at() -> None:
    line = b"CUDA out of memory" + b"." * LINE_BYTES_MAX + b"step 1 step 2"
    scan = StreamScan(MATCHER, stream="s")
    scan.feed(line + b"\n" + b"step 9\n")
    assert brief(scan.end()) == [("t_oom", 1, 1), ("t_step", 2, 1)]
    assert scan.cut_lines == 1


def test_a_stream_has_room_for_so_many_findings_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_fold, "FOLDS_MAX", 10)
    scan = StreamScan(MATCHER, stream="s")
    scan.feed(b"".join(b"peer %d is gone\n" % n for n in range(30)))
    assert len(scan.end()) == 10
    assert scan.dropped == 20


def test_lines_that_others_have_cut_are_folded_by_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_scan, "STREAMS_MAX", 3)
    lines = [
        EvidenceLine(text="peer 1 is gone", stream=f"s{n % 5}", rank=n % 5, number=n, source=Source.WORKER_STDERR)
        for n in range(20)
    ]
    found = read_lines(MATCHER, lines)
    assert sum(each.count for each in found) == 20
    assert {each.stream for each in found} == {"s0", "s1", "s2", ""}
    assert {each.rank for each in found} == set(range(5))

"""Whole lines from any cut of a stream, in bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from node_agent.adapters.line_output import CONTINUES, LINE_BYTES_MAX, LineSplitter


@given(st.lists(st.binary(max_size=40)))
def test_lines_do_not_depend_on_how_the_stream_was_cut(parts: list[bytes]) -> None:
    splitter = LineSplitter()
    lines = [line for part in parts for line in splitter.feed(part)] + splitter.flush()
    whole = b"".join(parts)
    assert lines == whole.split(b"\n")[: -1 if whole.endswith(b"\n") or not whole else None]


def test_long_line_is_passed_on_in_marked_pieces_and_not_held() -> None:
    splitter = LineSplitter()
    lines: list[bytes] = []
    for _ in range(160):
        lines += splitter.feed(b"x" * 65536)
        assert len(splitter.unfinished) <= LINE_BYTES_MAX
    lines += splitter.feed(b"end\n")
    assert all(line.endswith(CONTINUES) for line in lines[:-1])
    assert sum(len(line.removesuffix(CONTINUES)) for line in lines) == 160 * 65536 + 3

"""Whole lines with their place, however the stream is cut."""

from hypothesis import given
from hypothesis import strategies as st

from node_agent.domain.line_splitter import LineSplitter


def split(chunks: list[bytes], limit: int = 64) -> tuple[list[tuple[int, bytes]], LineSplitter]:
    """Every line with its offset, cut to the limit, as whoever reads the blocks sees them."""
    splitter = LineSplitter(line_bytes_max=limit)
    blocks = [block for chunk in chunks for block in splitter.feed(chunk)] + splitter.flush()
    lines = []
    for block in blocks:
        assert block.data.endswith(b"\n")
        at = block.offset
        for line in block.data.split(b"\n")[:-1]:
            lines.append((at, line[:limit]))
            at += len(line) + 1
    return lines, splitter


def test_a_line_waits_for_its_end() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"loss: 1") == []
    (block,) = splitter.feed(b"2.5\n")
    assert (block.data, block.offset) == (b"loss: 12.5\n", 0)


def test_a_begun_line_and_the_lines_after_it_are_two_blocks() -> None:
    splitter = LineSplitter()
    splitter.feed(b"a")
    blocks = splitter.feed(b"b\nc\nd\ne")
    assert [(block.data, block.offset) for block in blocks] == [(b"ab\n", 0), (b"c\nd\n", 3)]
    (last,) = splitter.flush()
    assert (last.data, last.offset) == (b"e\n", 7)
    assert splitter.flush() == []


def test_a_progress_bar_is_lines_too() -> None:
    lines, splitter = split([b"10%\r20%\r", b"30%\r\ndone\n"])
    assert [line for _, line in lines if line] == [b"10%", b"20%", b"30%", b"done"]
    assert splitter.lines == 4


def test_a_return_and_a_newline_in_two_chunks_end_one_line() -> None:
    _, splitter = split([b"a\r", b"\nb\r", b"c\n"])
    assert splitter.lines == 3


def test_ten_megabytes_without_a_newline_are_held_to_the_limit() -> None:
    splitter = LineSplitter(line_bytes_max=100)
    for _ in range(160):
        assert splitter.feed(b"x" * 65_536) == []
    blocks = splitter.feed(b"tail\nnext\n")
    assert [len(block.data) for block in blocks] == [101, 5]
    assert blocks[1].offset == 160 * 65_536 + 5
    assert (splitter.lines, splitter.cut_lines) == (2, 1)


def test_bytes_are_never_decoded() -> None:
    lines, _ = split([b"\xff\xfe\x00 \xe2\x82", b"\xac\n"])
    assert lines == [(0, b"\xff\xfe\x00 \xe2\x82\xac")]


@given(st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"a", b"\n").replace(b"b", b"\r")), max_size=12))
def test_where_the_stream_is_cut_changes_nothing(chunks: list[bytes]) -> None:
    whole, one = split([b"".join(chunks)], limit=16)
    pieces, many = split(chunks, limit=16)
    singles, single = split([bytes([byte]) for chunk in chunks for byte in chunk], limit=16)
    assert pieces == whole
    assert singles == whole
    assert one.lines == many.lines == single.lines

"""Labels survive packing, small enough for a record, and a damaged text is refused."""

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_topology.rank_labels import PLAIN_BYTES_MAX, pack_labels, unpack_labels

labels = st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=5), max_size=4)


@given(st.dictionaries(st.integers(0, 200), labels, max_size=20))
def test_what_is_packed_comes_out(table: dict[int, dict[str, str]]) -> None:
    packed = pack_labels(table)
    assert unpack_labels(packed) == table
    assert pack_labels(dict(reversed(table.items()))) == packed


def test_a_hundred_thousand_ranks_take_little_room() -> None:
    table = {rank: {"dp": str(rank // 64), "pp": str(rank // 8 % 8), "tp": str(rank % 8)} for rank in range(100_000)}
    packed = pack_labels(table)
    assert len(packed) < 40_000
    assert unpack_labels(packed) == table


@pytest.mark.parametrize(
    "text",
    [
        "no base64!",
        base64.b64encode(b"not deflated").decode(),
        base64.b64encode(zlib.compress(b"[]")).decode(),
        base64.b64encode(zlib.compress(b'{"columns": {"a": 3}, "bare": []}')).decode(),
        base64.b64encode(zlib.compress(bytes(PLAIN_BYTES_MAX + 1))).decode(),
        pack_labels({0: {"dp": "0"}})[:-8],
    ],
)
def test_a_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpack_labels(text)

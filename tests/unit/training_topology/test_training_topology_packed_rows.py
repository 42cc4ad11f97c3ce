"""Packed rows come back, take little room, and damage is said."""

import base64
import json
import zlib

import pytest

from training_topology.identity import NodeId, NodeRank
from training_topology.packed_rows import PLAIN_BYTES_MAX, pack_rows, unpack_rows
from training_topology.topology import NodeRow


def rows(count: int) -> tuple[NodeRow, ...]:
    return tuple(
        NodeRow(node_rank=NodeRank(n), node_id=NodeId(f"node-{n:05d}"), address=f"10.0.{n // 256}.{n % 256}", nproc=8)
        for n in range(count)
    )


def packed(**columns: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(columns).encode())).decode()


@pytest.mark.parametrize("count", [0, 1, 300])
def test_what_is_packed_comes_out(count: int) -> None:
    assert unpack_rows(pack_rows(rows(count))) == rows(count)


def test_a_large_table_takes_little_room() -> None:
    assert len(pack_rows(rows(12_500))) < 150_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no base64!",
        base64.b64encode(b"not deflated").decode(),
        base64.b64encode(zlib.compress(bytes(PLAIN_BYTES_MAX + 1))).decode(),
        pack_rows(rows(3))[:-8],
        packed(node_rank=[0], node_id=["a"], address=["a"]),
        packed(node_rank=[0], node_id=["a"], address=["a"], nproc=[1, 2]),
        packed(node_rank=["0"], node_id=["a"], address=["a"], nproc=[1]),
        packed(node_rank=[True], node_id=["a"], address=["a"], nproc=[1]),
        packed(node_rank=0, node_id=["a"], address=["a"], nproc=[1]),
    ],
)
def test_damage_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpack_rows(text)

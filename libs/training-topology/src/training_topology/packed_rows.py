"""Many rows of a rank table as a short text: columns as JSON, deflated, in base64.

12,500 rows take 1.2 MB as objects, which is more than a message carries, and about 80 KB packed.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Sequence
from typing import Any

from training_topology.identity import NodeId, NodeRank
from training_topology.topology import NodeRow

PLAIN_BYTES_MAX = 64 << 20
"""What a packed text may become; 100,000 rows with long names take 20 MB."""


def pack_rows(rows: Sequence[NodeRow]) -> str:
    """The rows as text; the same rows always give the same text."""
    columns = {
        "node_rank": [row.node_rank for row in rows],
        "node_id": [row.node_id for row in rows],
        "address": [row.address for row in rows],
        "nproc": [row.nproc for row in rows],
    }
    plain = json.dumps(columns, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(plain.encode(), 6)).decode()


def unpack_rows(packed: str) -> tuple[NodeRow, ...]:
    """Inverse of `pack_rows`.

    Raises:
        ValueError: no packed rows, or beyond the limit.
    """
    try:
        inflater = zlib.decompressobj()
        plain = inflater.decompress(base64.b64decode(packed, validate=True), PLAIN_BYTES_MAX)
        if inflater.unconsumed_tail or not inflater.eof:
            raise ValueError(f"more than {PLAIN_BYTES_MAX} bytes, or cut off")
        columns = json.loads(plain)
        found = zip(
            _of_type(columns["node_rank"], int),
            _of_type(columns["node_id"], str),
            _of_type(columns["address"], str),
            _of_type(columns["nproc"], int),
            strict=True,
        )
        return tuple(
            NodeRow(node_rank=NodeRank(node_rank), node_id=NodeId(node_id), address=address, nproc=nproc)
            for node_rank, node_id, address, nproc in found
        )
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"packed rows are damaged: {str(error)[:200]}") from error


def _of_type(column: Any, kind: type) -> list[Any]:
    if not isinstance(column, list) or not all(type(value) is kind for value in column):
        raise TypeError(f"a column that is no list of {kind.__name__}")
    return column

"""Labels of ranks (dp, tp, pp, free-form), as a table and packed into a few kilobytes of text.

Packed: one column a label name, the values by rank, as JSON, deflated, in base64. Labels of a parallel layout repeat
with a period, so 100,000 ranks with three labels take about 10 KB where they would take 5 MB in plain.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any

RankLabelTable = dict[int, dict[str, str]]
"""Labels by rank; ranks without labels are absent."""

PLAIN_BYTES_MAX = 64 << 20
"""What a packed text may become; a damaged record must not eat the memory of whoever shows it."""


def pack_labels(table: Mapping[int, Mapping[str, str]]) -> str:
    """The table as text; empty for an empty one. The same table always gives the same text."""
    if not table:
        return ""
    names = sorted({name for labels in table.values() for name in labels})
    ranks = range(max(table) + 1)
    columns = {name: [table.get(rank, {}).get(name) for rank in ranks] for name in names}
    # Ranks that said they have no labels at all are known, too.
    bare = sorted(rank for rank, labels in table.items() if not labels)
    plain = json.dumps({"columns": columns, "bare": bare}, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(plain.encode(), 6)).decode()


def unpack_labels(packed: str) -> RankLabelTable:
    """Inverse of `pack_labels`.

    Raises:
        ValueError: no packed table, or one beyond the limits.
    """
    if not packed:
        return {}
    record = _record(packed)
    try:
        table: RankLabelTable = {int(rank): {} for rank in record["bare"]}
        for name, column in record["columns"].items():
            for rank, value in enumerate(column):
                if value is not None:
                    table.setdefault(rank, {})[name] = str(value)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(error) from error
    return dict(sorted(table.items()))


def unpack_columns(packed: str) -> dict[str, list[str | None]]:
    """The columns by label name, all of one length, by rank: a tenth of the work of `unpack_labels`.

    Raises:
        ValueError: as `unpack_labels`.
    """
    if not packed:
        return {}
    columns = _record(packed).get("columns")
    if not isinstance(columns, dict) or not all(isinstance(column, list) for column in columns.values()):
        raise _damaged(TypeError("no columns"))
    if len({len(column) for column in columns.values()}) > 1:
        raise _damaged(ValueError("columns of different lengths"))
    return columns


def _record(packed: str) -> dict[str, Any]:
    try:
        inflater = zlib.decompressobj()
        plain = inflater.decompress(base64.b64decode(packed, validate=True), PLAIN_BYTES_MAX)
        if inflater.unconsumed_tail or not inflater.eof:
            raise ValueError(f"more than {PLAIN_BYTES_MAX} bytes, or cut off")
        record = json.loads(plain)
        if not isinstance(record, dict):
            raise ValueError("no object")
    except (binascii.Error, zlib.error, ValueError) as error:
        raise _damaged(error) from error
    return record


def _damaged(error: Exception) -> ValueError:
    return ValueError(f"labels of ranks are damaged: {str(error)[:200]}")

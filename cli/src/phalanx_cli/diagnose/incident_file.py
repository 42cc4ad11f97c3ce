"""An incident file: a list `evidence` of lines with their source, node, rank and offset."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from fault_attribution.evidence_line import EvidenceLine, Source
from phalanx_cli.diagnose.yaml_nodes import DocumentRefused, documents, items_at, line_of, text_at

LINES_MAX = 200_000


def incident_lines(data: bytes, stream: str) -> Iterator[EvidenceLine]:
    """Its lines; each is numbered by where its text stands in the file. A row without a text is passed over.

    Raises:
        DocumentRefused: it is none.
    """
    roots = documents(data)
    rows = [row for root in roots for row in items_at(root, "evidence") if text_at(row, "line")]
    if not rows:
        raise DocumentRefused("no list `evidence` of rows with a `line`")
    if len(rows) > LINES_MAX:
        raise DocumentRefused(f"more than {LINES_MAX} rows")
    for row in rows:
        yield EvidenceLine(
            text=text_at(row, "line"),
            source=_source(text_at(row, "source")),
            node=text_at(row, "node"),
            rank=_whole(text_at(row, "rank")),
            at_s=_number(text_at(row, "offset_s")),
            stream=stream,
            number=_line_of_text(row),
        )


def _line_of_text(row: yaml.Node) -> int:
    assert isinstance(row, yaml.MappingNode), "it had a text"
    return next(line_of(key) for key, _ in row.value if getattr(key, "value", None) == "line")


def _source(text: str) -> Source:
    return Source(text) if text in tuple(Source) else Source.UNKNOWN


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

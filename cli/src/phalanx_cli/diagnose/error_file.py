"""torchrun's error files: what a rank raised, as the lines that its stderr would have had."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fault_attribution.evidence_line import EvidenceLine, Source
from phalanx_cli.diagnose.line_facts import Origin
from phalanx_cli.diagnose.yaml_nodes import DocumentRefused

TEXT_LINES_MAX = 2_000


def error_file_lines(data: bytes, stream: str, origin: Origin) -> Iterator[EvidenceLine]:
    """The message and the stack of it.

    Both layouts are read: `{"message": {"message": ..., "extraInfo": {...}}}` of
    torch.distributed.elastic.multiprocessing.errors.ErrorHandler, and `{"message": "..."}`.

    Raises:
        DocumentRefused: it is neither.
    """
    try:
        record = json.loads(data)
        body = record["message"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise DocumentRefused("no error record") from error
    extra: dict[str, object] = {}
    if isinstance(body, dict):
        found = body.get("extraInfo")
        extra = found if isinstance(found, dict) else {}
        body = body.get("message")
    if not isinstance(body, str):
        raise DocumentRefused("an error record without a message")
    facts = origin.facts()
    stack = extra.get("py_callstack")
    texts = [*(stack.splitlines() if isinstance(stack, str) else ()), *body.splitlines()]
    number = data[: max(0, data.find(b'"message"'))].count(b"\n") + 1
    for text in dict.fromkeys(texts[-TEXT_LINES_MAX:]):
        yield EvidenceLine(
            text=text,
            source=facts.source if facts.source is not Source.UNKNOWN else Source.WORKER_STDERR,
            node=facts.node,
            rank=facts.rank,
            at_s=_time(extra.get("timestamp")),
            stream=stream,
            number=number,
        )


def _time(value: object) -> float | None:
    try:
        return float(str(value)) if value is not None else None
    except ValueError:  # not a time
        return None

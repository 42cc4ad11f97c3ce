"""YAML and JSON documents as nodes with line numbers, in bounded memory; nothing in them is expanded or built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from phalanx_cli.diagnose.byte_source import ByteSource
from phalanx_cli.diagnose.encodings import chunks

DOCUMENT_BYTES_MAX = 16 << 20
"""Events of a large namespace, or an incident of 100,000 lines. Logs are no documents and have no such limit."""
DEPTH_MAX = 64
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentRefused(Exception):
    """Not a document of the expected shape, or one that is built to do harm; the text says why."""


@dataclass(frozen=True, slots=True)
class Held:
    """A document's bytes as UTF-8; of one that is too large the beginning, and the rest to be read on."""

    data: bytes
    rest: Iterator[bytes] | None = None

    @property
    def too_large(self) -> bool:
        """Whether it can only be read as a stream."""
        return self.rest is not None

    def parts(self) -> Iterator[bytes]:
        """All of it, in pieces."""
        yield self.data
        if self.rest is not None:
            yield from self.rest


def read_whole(source: ByteSource, encoding: str) -> Held:
    """All bytes of a document, if they are few enough."""
    parts: list[bytes] = []
    size = 0
    stream = chunks(source, encoding)
    for part in stream:
        parts.append(part)
        size += len(part)
        if size > DOCUMENT_BYTES_MAX:
            return Held(b"".join(parts), stream)
    return Held(b"".join(parts))


def documents(data: bytes) -> list[yaml.Node]:
    """The root of each document.

    Raises:
        DocumentRefused: not YAML, with aliases, or nested deeper than any evidence is.
    """
    text = data.decode("utf-8", errors="replace").replace("\x00", "")
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent):
                raise DocumentRefused(f"line {_line_of_mark(event.start_mark)}: aliases are not expanded")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEPTH_MAX:
                    raise DocumentRefused(f"line {_line_of_mark(event.start_mark)}: nested deeper than {DEPTH_MAX}")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
        return list(yaml.compose_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise DocumentRefused(f"{where}{getattr(error, 'problem', '') or error}") from error
    except RecursionError as error:
        raise DocumentRefused("nested too deep") from error


def child(node: yaml.Node | None, *names: str) -> yaml.Node | None:
    """The node at a path of keys; None where there is none."""
    for name in names:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if getattr(key, "value", None) == name), None)
    return node


def text_at(node: yaml.Node | None, *names: str) -> str:
    """A plain value at a path of keys; empty where there is none."""
    found = child(node, *names)
    if not isinstance(found, yaml.ScalarNode) or found.tag == "tag:yaml.org,2002:null":
        return ""
    return str(found.value)


def items_at(node: yaml.Node | None, *names: str) -> Iterator[yaml.Node]:
    """The entries of a list at a path of keys."""
    found = child(node, *names)
    if isinstance(found, yaml.SequenceNode):
        yield from found.value


def line_of(node: yaml.Node) -> int:
    """Where a node begins, from 1."""
    return _line_of_mark(node.start_mark)


def _line_of_mark(mark: Any) -> int:
    return 1 if mark is None else int(mark.line) + 1

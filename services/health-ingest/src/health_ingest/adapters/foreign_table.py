"""The table of other systems' words from YAML: the built-in one, and the operator's file before it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fault_contracts.health import Component
from fault_contracts.payload import Health
from health_ingest.domain.foreign import ForeignRow, ForeignSource, ForeignTable
from service_kit.bounded_yaml import YamlRefused, load_bounded

FILE_BYTES_MAX = 4_000_000
"""Names of 50,000 nodes."""
BUILT_IN = "policies/foreign.yaml"
SOURCES = ("alertmanager", "cloudevents", "nvsentinel", "maintenance", "node-problem-detector")

Text = Annotated[str, Field(min_length=1, max_length=512)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Row(_Strict):
    names: tuple[Text, ...] = Field(min_length=1, max_length=100)
    check: Text
    component: Component
    component_id: tuple[Text, ...] = Field(default=(), max_length=16)
    states: dict[Text, Health] = Field(default_factory=dict, max_length=32)
    why: Text
    reference: Text


class _Source(_Strict):
    node: tuple[Text, ...] = Field(default=(), max_length=32)
    states: dict[Text, Health] = Field(default_factory=dict, max_length=32)
    ignore_when: dict[Text, tuple[Text, ...]] = Field(default_factory=dict, max_length=32)
    rows: tuple[_Row, ...] = Field(default=(), max_length=1_000)


class _File(_Strict):
    nodes: dict[Text, Text] = Field(default_factory=dict, max_length=100_000)
    sources: dict[Text, _Source] = Field(default_factory=dict, max_length=16)


def load_foreign_table(own: Path | None = None) -> ForeignTable:
    """The built-in table, with the operator's rows, places and words before it.

    Raises:
        ValueError: which file, where in it, and what is wrong there.
    """
    built_in = _parsed((files("health_ingest") / BUILT_IN).read_text(encoding="utf-8"), BUILT_IN)
    if own is None:
        return _table(_File(), built_in)
    try:
        if own.stat().st_size > FILE_BYTES_MAX:
            raise ValueError(f"{own}: larger than {FILE_BYTES_MAX} bytes")
        text = own.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{own}: cannot be read: {error}") from error
    return _table(_parsed(text, str(own)), built_in)


def _parsed(text: str, name: str) -> _File:
    try:
        found = _File.model_validate(load_bounded(text) or {})
    except YamlRefused as refused:
        raise ValueError(f"{name}:{refused.line}: {refused}") from refused
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{name}: at {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    unknown = sorted(set(found.sources) - set(SOURCES))
    if unknown:
        raise ValueError(f"{name}: source {unknown[0]!r} is not one of {', '.join(SOURCES)}")
    return found


def _table(own: _File, built_in: _File) -> ForeignTable:
    sources = {}
    for name in SOURCES:
        first, second = own.sources.get(name, _Source()), built_in.sources[name]
        sources[name] = ForeignSource(
            node=(*first.node, *second.node),
            states={**second.states, **first.states},
            ignore_when={**second.ignore_when, **first.ignore_when},
            rows=tuple(ForeignRow(**row.model_dump()) for row in (*first.rows, *second.rows)),
        )
    return ForeignTable(sources=sources, nodes={**built_in.nodes, **own.nodes})

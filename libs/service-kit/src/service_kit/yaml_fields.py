"""Rows of a policy file, field by field, with the line of everything that is wrong.

Files are bounded, aliases are refused, and a field that nobody asks for is a mistake: a misspelt one must not be
silently without effect.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import yaml

from service_kit.bounded_yaml import YamlRefused, compose_bounded_text

FILE_BYTES_MAX = 1 << 20
"""The largest shipped one has 80 KB."""
ROWS_MAX = 2_000
TEXT_MAX = 2_000

_Choice = TypeVar("_Choice", bound=StrEnum)
_Row = TypeVar("_Row")
_Key = TypeVar("_Key", int, str)
_UNSET: Any = object()


class PolicyRefused(Exception):
    """A policy file cannot be used; the text says file, line and reason."""


def read_lists(path: Path, names: set[str]) -> dict[str, list[Fields]]:
    """The lists of rows of a file's top level, each under its name.

    Raises:
        PolicyRefused: not readable, not YAML, or not of this shape.
    """
    top = Fields(path, compose_bounded(path))
    lists = {name: top.rows(name, needed=True) for name in sorted(names)}
    top.end()
    return lists


def compose_bounded(path: Path) -> yaml.Node | None:
    """The root node of a YAML file; None for an empty one.

    Raises:
        PolicyRefused: not readable, too large, not YAML, or with an alias.
    """
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise PolicyRefused(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise PolicyRefused(f"{path}: is larger than {FILE_BYTES_MAX} bytes")
    try:
        return compose_bounded_text(data)
    except YamlRefused as refused:
        where = f"{path}:{refused.line}" if refused.line else str(path)
        raise PolicyRefused(f"{where}: {refused}") from refused


class Fields:
    """One mapping. Ask for each field once, then `end`."""

    def __init__(self, path: Path, node: yaml.Node | None) -> None:
        self._path = path
        self._line = 1 if node is None else node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            raise self.refused("must be a mapping of fields")
        self._nodes: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if name in self._nodes or not name:
                raise self.refused(f"field {name or 'without a name'} is there twice or is no name", key)
            self._nodes[name] = value
        self._asked: set[str] = set()

    def refused(self, reason: str, node: yaml.Node | None = None) -> PolicyRefused:
        """An error that points at this mapping, or at a node of it."""
        line = self._line if node is None else node.start_mark.line + 1
        return PolicyRefused(f"{self._path}:{line}: {reason}")

    def end(self) -> None:
        """Refuse what nobody asked for."""
        for name in sorted(self._nodes.keys() - self._asked):
            raise self.refused(f"unknown field {name}", self._nodes[name])

    def has(self, name: str) -> bool:
        """Whether the field is there."""
        return name in self._nodes

    @property
    def line(self) -> int:
        """Where this mapping begins."""
        return self._line

    def plain(self, name: str) -> dict[str, str]:
        """A mapping of names to plain values; empty when it is left out."""
        if not self.has(name):
            return {}
        inner = self.mapping(name)
        return {key: inner._scalar(key, node) for key, node in inner._nodes.items()}

    def text(self, name: str, default: str = _UNSET) -> str:
        """A text that is not empty."""
        node = self._take(name, default)
        if node is None:
            return default
        value = self._scalar(name, node).strip()
        if not value or len(value) > TEXT_MAX:
            raise self.refused(f"{name} must have 1 to {TEXT_MAX} characters", node)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, at least one."""
        items = self._items(name)
        if not items:
            raise self.refused(f"{name} must not be empty")
        return tuple(self._scalar(name, item) for item in items)

    def integer(self, name: str, least: int, most: int) -> int:
        """A number; also in hex."""
        node = self._take(name, _UNSET)
        assert node is not None, "needed"
        return self._integer(name, node, least, most)

    def integers(self, name: str, least: int, most: int) -> tuple[int, ...]:
        """A list of numbers; it may be empty."""
        return tuple(self._integer(name, item, least, most) for item in self._items(name))

    def number(self, name: str, least: float, most: float) -> float:
        """A number with a fraction."""
        node = self._take(name, _UNSET)
        assert node is not None, "needed"
        try:
            value = float(self._scalar(name, node))
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise self.refused(f"{name} must be a number from {least:g} to {most:g}", node)
        return value

    def flag(self, name: str, default: bool = _UNSET) -> bool:
        """`true` or `false`."""
        node = self._take(name, default)
        if node is None:
            return default
        value = {"true": True, "false": False}.get(self._scalar(name, node))
        if value is None:
            raise self.refused(f"{name} must be true or false", node)
        return value

    def choice(self, name: str, choices: type[_Choice]) -> _Choice:
        """One of a closed list."""
        node = self._take(name, _UNSET)
        assert node is not None, "needed"
        value = self._scalar(name, node)
        try:
            return choices(value)
        except ValueError:
            raise self.refused(f"{name} is {value!r}; it must be one of {', '.join(choices)}", node) from None

    def mapping(self, name: str) -> Fields:
        """A mapping within."""
        return Fields(self._path, self._take(name, _UNSET))

    def rows(self, name: str, *, needed: bool = False) -> list[Fields]:
        """A list of mappings; empty when it may be left out and is."""
        if not needed and not self.has(name):
            return []
        items = self._items(name)
        if len(items) > ROWS_MAX:
            raise self.refused(f"{name} has more than {ROWS_MAX} rows")
        return [Fields(self._path, item) for item in items]

    def _take(self, name: str, default: Any) -> yaml.Node | None:
        self._asked.add(name)
        node = self._nodes.get(name)
        if node is None and default is _UNSET:
            raise self.refused(f"{name} is missing")
        return node

    def _items(self, name: str) -> list[yaml.Node]:
        node = self._take(name, _UNSET)
        if not isinstance(node, yaml.SequenceNode):
            raise self.refused(f"{name} must be a list", node)
        return list(node.value)

    def _scalar(self, name: str, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.refused(f"{name} must be a plain value", node)
        return str(node.value)

    def _integer(self, name: str, node: yaml.Node, least: int, most: int) -> int:
        text = self._scalar(name, node)
        try:
            value = int(text, 0)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise self.refused(f"{name} is {text!r}; it must be a whole number from {least} to {most}", node)
        return value


def table_of(rows: list[Fields], read: Callable[[Fields], _Row], key: Callable[[_Row], _Key]) -> dict[_Key, _Row]:
    """Rows by their key, in the order of the file.

    Raises:
        PolicyRefused: a row cannot be read, has a field that nobody asked for, or a key is there twice.
    """
    table: dict[_Key, _Row] = {}
    for fields in rows:
        row = read(fields)
        fields.end()
        if key(row) in table:
            raise fields.refused(f"{key(row)} is there twice")
        table[key(row)] = row
    return table

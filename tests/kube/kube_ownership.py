"""Who owns which field: server-side apply, and what other writes take away from it.

A field is a path of names; an item of a list with keys is a path element of its own. Good enough to see what a user of
server-side apply sees: conflicts with the field and the other manager's name, shared fields, and fields that go when
their only owner does not apply them any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kube_merge import ListKeys, copied, key_of

Path = tuple[str, ...]
_NOT_OWNED = {("apiVersion",), ("kind",)}
_NOT_OWNED_METADATA = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
     "deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName"}
)  # fmt: skip


def leaves(value: Any, keys: ListKeys, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field of an object with its value."""
    if at in _NOT_OWNED or (len(at) == 2 and at[0] == "metadata" and at[1] in _NOT_OWNED_METADATA):
        return
    if isinstance(value, Mapping):
        if not value and at:
            yield at, {}
        for name, inner in value.items():
            yield from leaves(inner, keys, (*at, name))
    elif isinstance(value, list) and at and at[-1] in keys and all(isinstance(item, Mapping) for item in value):
        by = keys[at[-1]]
        for item in value:
            element = "k:" + json.dumps(dict(zip(by, key_of(item, by), strict=True)), sort_keys=True)
            yield from leaves(item, keys, (*at, element))
    else:
        yield at, value


def managers(obj: Mapping[str, Any]) -> dict[tuple[str, str, str], set[Path]]:
    """(manager, operation, subresource) to its fields, from metadata.managedFields."""
    owned = {}
    for entry in obj.get("metadata", {}).get("managedFields", []):
        name = (entry["manager"], entry["operation"], entry.get("subresource", ""))
        owned[name] = set(_paths(entry["fieldsV1"]))
    return owned


def _paths(fields: Mapping[str, Any], at: Path = ()) -> Iterator[Path]:
    for name, inner in fields.items():
        path = (*at, name.removeprefix("f:"))
        if inner:
            yield from _paths(inner, path)
        else:
            yield path


def write_managers(obj: dict[str, Any], owned: Mapping[tuple[str, str, str], set[Path]], time: str) -> None:
    """Put them back."""
    entries = []
    for (manager, operation, subresource), paths in sorted(owned.items()):
        if not paths:
            continue
        fields: dict[str, Any] = {}
        for path in sorted(paths):
            inner = fields
            for element in path:
                inner = inner.setdefault(element if element.startswith("k:") else f"f:{element}", {})
        entry = {"manager": manager, "operation": operation, "apiVersion": obj["apiVersion"], "time": time,
                 "fieldsType": "FieldsV1", "fieldsV1": fields}  # fmt: skip
        if subresource:
            entry["subresource"] = subresource
        entries.append(entry)
    obj["metadata"]["managedFields"] = entries


def take_changed(
    before: Mapping[str, Any], after: dict[str, Any], *, manager: str, subresource: str, keys: ListKeys, time: str
) -> None:
    """A write that is not an apply: what it changed belongs to it alone, what it removed to nobody."""
    old, new = dict(leaves(before, keys)), dict(leaves(after, keys))
    changed = {path for path, value in new.items() if path not in old or old[path] != value}
    owned = managers(before)
    for paths in owned.values():
        paths -= changed
        paths &= set(new)
    owned.setdefault((manager, "Update", subresource), set()).update(changed)
    write_managers(after, owned, time)


def apply(
    live: Mapping[str, Any], body: Mapping[str, Any], *, manager: str, subresource: str, force: bool, keys: ListKeys,
    time: str,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:  # fmt: skip
    """The object after an apply, and the conflicts (field, other manager); with conflicts nothing is to be written."""
    mine = (manager, "Apply", subresource)
    wanted, old, owned = dict(leaves(body, keys)), dict(leaves(live, keys)), managers(live)
    conflicts = []
    for path, value in wanted.items():
        for other, paths in owned.items():
            if other == mine or not any(_overlap(path, has) for has in paths):
                continue
            if old.get(path, ...) == value:
                continue  # both want the same: it is shared
            if force:
                owned[other] = {has for has in paths if not _overlap(path, has)}
            else:
                conflicts.append((_spelled(path), other[0]))
    if conflicts:
        return dict(live), conflicts
    new = _overlay(copied(dict(live)), body, keys)
    for path in owned.get(mine, set()) - set(wanted):
        if not any(path in paths for other, paths in owned.items() if other != mine):
            _remove(new, path, keys)
    owned[mine] = set(wanted)
    write_managers(new, owned, time)
    return new, []


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _spelled(path: Path) -> str:
    text = ""
    for element in path:
        if element.startswith("k:"):
            text += "[" + ",".join(f'{k}="{v}"' for k, v in json.loads(element[2:]).items()) + "]"
        else:
            text += f".{element}"
    return text


def _overlay(old: Any, body: Any, keys: ListKeys, name: str = "") -> Any:
    if isinstance(body, Mapping):
        new = dict(old) if isinstance(old, Mapping) else {}
        for field, value in body.items():
            new[field] = _overlay(new.get(field), value, keys, field)
        return new
    if isinstance(body, list) and name in keys and all(isinstance(item, Mapping) for item in body):
        by = keys[name]
        new_list = list(old or [])
        for item in body:
            place = next((i for i, had in enumerate(new_list) if key_of(had, by) == key_of(item, by)), None)
            if place is None:
                new_list.append(copied(dict(item)))
            else:
                new_list[place] = _overlay(new_list[place], item, keys)
        return new_list
    return copied(body)


def _remove(node: Any, path: Path, keys: ListKeys) -> None:
    """Take a field away, and what is empty after it."""
    first, rest = path[0], path[1:]
    if first.startswith("k:") and isinstance(node, list):
        wanted = json.loads(first[2:])
        for item in list(node):
            if all(item.get(name, "TCP" if name == "protocol" else None) == value for name, value in wanted.items()):
                if rest:
                    _remove(item, rest, keys)
                if not rest or not item or not set(item) - set(wanted):
                    node.remove(item)
    elif isinstance(node, dict) and first in node:
        if not rest:
            del node[first]
        else:
            _remove(node[first], rest, keys)
            if node[first] in ({}, []):
                del node[first]

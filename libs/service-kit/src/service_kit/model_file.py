"""A payload model from a YAML file: bounded, without aliases, and every problem with its file and line.

Names may be written as the model has them (`restarts_max`), in camel case (`restartsMax`), or as another system calls
them, where the caller says which field that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import BaseModel, ValidationError

from service_kit.yaml_fields import PolicyRefused, compose_bounded

DEPTH_MAX = 12
VALUES_MAX = 5_000
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")

Model = TypeVar("Model", bound=BaseModel)


def read_model(
    path: Path, model: type[Model], *, top: tuple[str, ...] = (), aliases: Mapping[str, str] | None = None
) -> Model:
    """Read a file.

    Args:
        path: the file.
        model: what it must be.
        top: names of mappings that may stand around it, outermost first; each is stepped into where it is there.
        aliases: a dotted name in the file (after camel case was undone) → dotted name in the model.

    Raises:
        PolicyRefused: with file, line and reason.
    """
    root = compose_bounded(path)
    if root is None:
        raise PolicyRefused(f"{path}: is empty; write at least one field, or leave the file out")
    for name in top:
        root = _inside(root, name)
    lines: dict[tuple[Any, ...], int] = {}
    budget = [VALUES_MAX]
    data = _plain(path, root, (), lines, budget)
    if not isinstance(data, dict):
        raise PolicyRefused(f"{path}:{_line(root)}: must be a mapping of fields")
    data = _renamed(path, data, aliases or {}, lines)
    _refuse_unknown(path, data, model, (), lines)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise PolicyRefused(_first_problem(path, error, lines)) from error


def _inside(root: yaml.Node, name: str) -> yaml.Node:
    if isinstance(root, yaml.MappingNode):
        for key, value in root.value:
            if isinstance(key, yaml.ScalarNode) and key.value == name:
                return cast("yaml.Node", value)
    return root


def _plain(
    path: Path, node: yaml.Node, at: tuple[Any, ...], lines: dict[tuple[Any, ...], int], budget: list[int]
) -> Any:
    budget[0] -= 1
    if budget[0] < 0 or len(at) > DEPTH_MAX:
        raise PolicyRefused(f"{path}:{_line(node)}: more than {VALUES_MAX} values, or nested deeper than {DEPTH_MAX}")
    lines[at] = _line(node)
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise PolicyRefused(f"{path}:{_line(key)}: a name must be plain text")
            name = _HUMP.sub(r"_\1", str(key.value)).lower()
            if name in found:
                raise PolicyRefused(f"{path}:{_line(key)}: {key.value} is there twice")
            found[name] = _plain(path, value, (*at, name), lines, budget)
            lines[(*at, name)] = _line(key)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_plain(path, value, (*at, index), lines, budget) for index, value in enumerate(node.value)]
    if node.tag == "tag:yaml.org,2002:null":
        return None
    if node.tag == "tag:yaml.org,2002:bool":
        return str(node.value).lower() in ("true", "yes", "on")
    return str(node.value)  # pydantic reads numbers and words from it, and says what it cannot


def _renamed(
    path: Path, data: dict[str, Any], aliases: Mapping[str, str], lines: dict[tuple[Any, ...], int]
) -> dict[str, Any]:
    for alias, field in aliases.items():
        *around, last = alias.split(".")
        holder: Any = data
        for name in around:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if not isinstance(holder, dict) or last not in holder:
            continue
        value = holder.pop(last)
        target = data
        *outer, name = field.split(".")
        for step in outer:
            target = target.setdefault(step, {})
        place = tuple(alias.split("."))
        if name in target:
            raise PolicyRefused(f"{path}:{lines.get(place, 1)}: {alias} and {field} say the same; keep one")
        target[name] = value
        lines[tuple(field.split("."))] = lines.get(place, 1)
        for index in range(len(around), 0, -1):
            _drop_if_empty(data, around[:index])
    return data


def _drop_if_empty(data: dict[str, Any], names: list[str]) -> None:
    holder: Any = data
    for name in names[:-1]:
        holder = holder.get(name, {})
    if isinstance(holder, dict) and holder.get(names[-1]) == {}:
        del holder[names[-1]]


def _refuse_unknown(
    path: Path, data: Any, model: type[BaseModel], at: tuple[Any, ...], lines: dict[tuple[Any, ...], int]
) -> None:
    """A misspelt field must not be silently without effect; payloads ignore what they do not know."""
    if not isinstance(data, dict):
        return
    for name, value in data.items():
        field = model.model_fields.get(name)
        if field is None:
            known = ", ".join(sorted(model.model_fields))
            raise PolicyRefused(f"{path}:{lines.get((*at, name), 1)}: unknown field {name}; there are {known}")
        inner = _model_in(field.annotation)
        if inner is not None:
            for index, each in enumerate(value if isinstance(value, list) else [value]):
                place = (*at, name, index) if isinstance(value, list) else (*at, name)
                _refuse_unknown(path, each, inner, place, lines)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found is not None:
            return found
    return None


def _first_problem(path: Path, error: ValidationError, lines: dict[tuple[Any, ...], int]) -> str:
    problem = error.errors()[0]
    place = tuple(problem["loc"])
    line = next((lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in lines), 1)
    name = ".".join(str(part) for part in place)
    said = problem["msg"].removeprefix("Value error, ")
    more = f" (and {error.error_count() - 1} more problems)" if error.error_count() > 1 else ""
    return f"{path}:{line}: {name + ': ' if name else ''}{said}{more}"


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1

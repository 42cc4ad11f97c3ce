"""The only way in which a YAML file becomes values: of bounded size, depth and number, and without aliases.

A few hundred bytes of aliases of aliases are a billion values once somebody walks through them, and a deep nest is a
deep recursion in whoever reads it. So the events are looked at first, and nothing is built of what is refused.
"""

from __future__ import annotations

from typing import Any

import yaml

DEPTH_MAX = 64
"""The deepest file that we ship has 9; a Kubernetes manifest some 15."""
VALUES_MAX = 500_000
"""Scalars of one file; the largest that anybody may write, 50,000 names of nodes, has 100,000."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where it is built in: it reads 25 times as fast, and services wait for it at their start."""


class YamlRefused(ValueError):
    """Not YAML, or more than a file may be; `line` is from 1, or 0 where there is none."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


def load_bounded(text: str | bytes, *, values_max: int = VALUES_MAX) -> Any:
    """The values of one document, as `yaml.safe_load` gives them; None for an empty one. The caller bounds the size.

    Raises:
        YamlRefused: not YAML, more than one document, an alias, too deep, or too many values.
    """
    refuse_unbounded(text, values_max=values_max)
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, and the bounds were looked at above
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _refused(error) from error


def compose_bounded_text(text: str | bytes) -> yaml.Node | None:
    """The root node of one document; None for an empty one. The caller bounds the size.

    Raises:
        YamlRefused: as `load_bounded`.
    """
    refuse_unbounded(text)
    try:
        return yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise _refused(error) from error


def refuse_unbounded(text: str | bytes, *, values_max: int = VALUES_MAX) -> None:
    """Walk through the events, which builds nothing.

    Raises:
        YamlRefused: not YAML, an alias, too deep, or too many values.
    """
    depth = values = 0
    try:
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent):
                raise YamlRefused("aliases are not used here; write it out", _line(event))
            if isinstance(event, yaml.ScalarEvent):
                values += 1
                if values > values_max:
                    raise YamlRefused(f"has more than {values_max} values", _line(event))
            elif isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEPTH_MAX:
                    raise YamlRefused(f"is nested more than {DEPTH_MAX} deep", _line(event))
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except (yaml.YAMLError, RecursionError) as error:
        raise _refused(error) from error


def _line(event: yaml.Event) -> int:
    return 0 if event.start_mark is None else int(event.start_mark.line) + 1


def _refused(error: Exception) -> YamlRefused:
    """What is wrong without the text around it: a file read by mistake may hold a secret."""
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", "") or getattr(error, "reason", "") or type(error).__name__
    return YamlRefused(f"is not YAML: {said}", 0 if mark is None else int(mark.line) + 1)

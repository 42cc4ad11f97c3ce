"""Rows of the check policy from YAML: the built-in table, and an operator's file before it."""

from __future__ import annotations

import math
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import yaml

from fault_contracts.faults import Action, Attribution
from health_ingest.domain.check_policy import CheckPolicy, CheckRow, Repeats
from health_ingest.domain.ruling import Clears, Weight
from service_kit.bounded_yaml import YamlRefused, refuse_unbounded
from service_kit.errors import PermanentError

FILE_BYTES_MAX = 1_000_000
BUILT_IN = "policies/checks.yaml"
FOREVER = "forever"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where it is built in: it reads ten times as fast, and the service waits for this at its start."""
_FIELDS = frozenset(CheckRow.__dataclass_fields__)
_SECONDS_MAX = 30 * 86_400.0

E = TypeVar("E", bound=StrEnum)


def load_check_policy(own: Path | None = None) -> CheckPolicy:
    """The built-in table, with an operator's rows before it.

    Raises:
        PermanentError: file, line and what is wrong there; it stops the start.
    """
    try:
        built_in = parse_rows((files("health_ingest") / BUILT_IN).read_text(encoding="utf-8"), BUILT_IN)
        if own is None:
            return CheckPolicy(rows=built_in)
        if own.stat().st_size > FILE_BYTES_MAX:
            raise ValueError(f"{own}: larger than {FILE_BYTES_MAX} bytes")
        return CheckPolicy(rows=(*parse_rows(own.read_text(encoding="utf-8"), str(own)), *built_in))
    except OSError as error:
        raise PermanentError(f"PHALANX_CHECK_POLICY: {own} cannot be read: {error}") from error
    except ValueError as error:
        raise PermanentError(f"PHALANX_CHECK_POLICY: {error}") from error


def parse_rows(text: str, name: str) -> tuple[CheckRow, ...]:
    """The rows of one file: a list of mappings.

    Raises:
        ValueError: file, line and what is wrong there.
    """
    try:
        refuse_unbounded(text)
    except YamlRefused as refused:
        raise ValueError(f"{name} line {refused.line}: {refused}") from refused
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return ()
        if not isinstance(root, yaml.SequenceNode):
            raise ValueError(f"{name}: a list of rows is wanted")
        found: dict[str, CheckRow] = {}
        for node in root.value:
            where = f"{name} line {node.start_mark.line + 1}"
            # Typed as untyped by PyYAML's stubs; checked field by field below.
            fields: Any = loader.construct_object(node, deep=True)
            try:
                row = _row(fields)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
            if row.check in found:
                raise ValueError(f"{where}: {row.check} has a row already")
            found[row.check] = row
        return tuple(found.values())
    except yaml.YAMLError as error:
        raise ValueError(f"{name}: {error}") from error
    finally:
        loader.dispose()


def _row(fields: Any) -> CheckRow:
    if not isinstance(fields, dict):
        raise ValueError("a row is a mapping")
    unknown = sorted(str(key) for key in fields if key not in _FIELDS)
    if unknown:
        raise ValueError(f"unknown fields {', '.join(unknown)}; known are {', '.join(sorted(_FIELDS))}")
    missing = [key for key in ("check", "weight", "sentence", "source") if not fields.get(key)]
    if missing:
        raise ValueError(f"{', '.join(missing)} must be given")
    return CheckRow(
        check=_text(fields, "check", 256),
        weight=_choice(Weight, fields, "weight"),
        fault_class=_text(fields, "fault_class", 256),
        window_s=math.inf if fields.get("window_s") == FOREVER else _seconds(fields, "window_s"),
        clears=_choice(Clears, fields, "clears", Clears.GOOD_SAMPLES),
        good_samples_min=_count(fields, "good_samples_min"),
        quiet_s=_seconds(fields, "quiet_s"),
        origin=_choice(Attribution, fields, "origin", Attribution.UNKNOWN),
        action=_choice(Action, fields, "action", Action.WAIT_OR_IGNORE),
        sympathetic=_flag(fields, "sympathetic"),
        repeats=_repeats(fields.get("repeats")),
        sentence=_text(fields, "sentence", 1_000),
        source=_text(fields, "source", 512),
    )


def _text(fields: dict[str, Any], key: str, length_max: int) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str) or len(value) > length_max:
        raise ValueError(f"{key} must be text of at most {length_max} characters")
    return value


def _seconds(fields: dict[str, Any], key: str) -> float | None:
    value = fields.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _SECONDS_MAX:
        raise ValueError(f"{key} must be seconds above 0 and at most {_SECONDS_MAX:.0f}")
    return float(value)


def _count(fields: dict[str, Any], key: str) -> int | None:
    value = fields.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000):
        raise ValueError(f"{key} must be a whole number, 1 to 1000")
    return value


def _flag(fields: dict[str, Any], key: str) -> bool:
    value = fields.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false")
    return value


def _choice(kind: type[E], fields: dict[str, Any], key: str, default: E | None = None) -> E:
    value = fields.get(key, default)
    try:
        return kind(str(value))
    except ValueError:
        raise ValueError(f"{key} is {value!r}; one of {', '.join(kind)}") from None


def _repeats(value: Any) -> Repeats | None:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != {"count", "within_s"}:
        raise ValueError("repeats takes count and within_s")
    count, within_s = _count(value, "count"), _seconds(value, "within_s")
    if count is None or within_s is None:
        raise ValueError("repeats needs count and within_s")
    return Repeats(count=count, within_s=within_s)

"""Custom resources against the schema of their definition: defaults, unknown fields, types. CEL rules are not
evaluated here; the same tests on a real server see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
from kube_merge import copied

_NAMED = "x-kubernetes-preserve-unknown-fields"


def with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """Fill in what is missing, and leave out what the schema does not know."""
    if isinstance(value, Mapping) and schema.get("type") == "object":
        properties = schema.get("properties", {})
        new = {}
        for name, inner in value.items():
            if name in properties:
                new[name] = with_defaults(inner, properties[name])
            elif isinstance(schema.get("additionalProperties"), Mapping):
                new[name] = with_defaults(inner, schema["additionalProperties"])
            elif schema.get(_NAMED) or schema.get("additionalProperties") is True:
                new[name] = copied(inner)
        for name, inner in properties.items():
            if name not in new and "default" in inner:
                new[name] = with_defaults(copied(inner["default"]), inner)
        return new
    if isinstance(value, list) and schema.get("type") == "array":
        return [with_defaults(item, schema.get("items", {})) for item in value]
    return copied(value)


def complaints(value: Any, schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Field and message of everything that is wrong."""
    validator = jsonschema.Draft202012Validator(_plain(schema))
    return [
        (".".join(_spelled(error)), f"Invalid value: {error.message}"[:300])
        for error in sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.path)))
    ]


def _spelled(error: jsonschema.ValidationError) -> Iterator[str]:
    yield from map(str, error.absolute_path)
    if error.validator == "required":
        yield str(error.message).split("'")[1]


def _plain(schema: Mapping[str, Any]) -> Any:
    """JSON schema's own words for the two that Kubernetes adds."""
    plain: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "properties":
            plain[name] = {field: _plain(inner) for field, inner in value.items()}
        elif name in ("items", "additionalProperties") and isinstance(value, Mapping):
            plain[name] = _plain(value)
        elif not name.startswith("x-kubernetes-") and name not in ("nullable", "default", "format"):
            plain[name] = value
    if schema.get("x-kubernetes-int-or-string"):
        plain["type"] = ["integer", "string"]
    if schema.get("nullable") and "type" in plain:
        plain["type"] = [*([plain["type"]] if isinstance(plain["type"], str) else plain["type"]), "null"]
    return plain


def list_keys(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Lists of the schema that are maps, by the name of their field."""
    found: dict[str, tuple[str, ...]] = {}
    for name, inner in schema.get("properties", {}).items():
        if inner.get("x-kubernetes-list-type") == "map":
            found[name] = tuple(inner["x-kubernetes-list-map-keys"])
        found |= list_keys(inner)
        found |= list_keys(inner.get("items", {}))
    return found

"""What the fake API server fills in and refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kube_refusals import invalid
from kube_registry import Known
from kube_schema import complaints, with_defaults

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_POD_MAY_CHANGE = {"nodeName", "tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds"}


def completed(obj: dict[str, Any], known: Known) -> dict[str, Any]:
    """With defaults, and for custom resources without what their schema does not know."""
    if known.schema is not None:
        rest = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")}
        return {**{k: obj[k] for k in ("apiVersion", "kind", "metadata")}, **with_defaults(rest, known.schema)}
    if known.kind == "Pod":
        spec = obj.setdefault("spec", {})
        spec.setdefault("terminationGracePeriodSeconds", 30)
        spec.setdefault("restartPolicy", "Always")
        obj.setdefault("status", {}).setdefault("phase", "Pending")
    if known.kind == "Namespace":
        obj.setdefault("status", {"phase": "Active"})
    return obj


def check_new(obj: Mapping[str, Any], known: Known) -> None:
    """Refuse what a real server refuses when it is made."""
    name = obj["metadata"].get("name", "")
    wrong: list[tuple[str, str]] = []
    if not name:
        wrong.append(("metadata.name", "Required value: name or generateName is required"))
    elif not _NAME.match(name) or len(name) > 253:
        wrong.append(("metadata.name", f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of ...'))
    if known.kind == "Pod" and not obj.get("spec", {}).get("containers"):
        wrong.append(("spec.containers", "Required value"))
    wrong += _by_schema(obj, known)
    if wrong:
        raise invalid(known.kind, name, wrong)


def check_update(before: Mapping[str, Any], after: Mapping[str, Any], known: Known) -> None:
    """And when it is changed."""
    wrong = _by_schema(after, known)
    if known.kind == "Pod":
        changed = {
            field
            for field in {*before["spec"], *after["spec"]}
            if before["spec"].get(field) != after["spec"].get(field)
        }
        if changed - _POD_MAY_CHANGE and not _images_only(before["spec"], after["spec"], changed - _POD_MAY_CHANGE):
            wrong.append(("spec", "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"))
    if wrong:
        raise invalid(known.kind, str(after["metadata"]["name"]), wrong)


def _images_only(before: Mapping[str, Any], after: Mapping[str, Any], changed: set[str]) -> bool:
    if changed != {"containers"} or len(before["containers"]) != len(after["containers"]):
        return False
    return all(
        {**old, "image": ""} == {**new, "image": ""}
        for old, new in zip(before["containers"], after["containers"], strict=True)
    )


def _by_schema(obj: Mapping[str, Any], known: Known) -> list[tuple[str, str]]:
    if known.schema is None:
        return []
    rest = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")}
    schema = {**known.schema, "properties": {
        k: v for k, v in known.schema.get("properties", {}).items() if k not in ("apiVersion", "kind", "metadata")
    }}  # fmt: skip
    return complaints(rest, schema)

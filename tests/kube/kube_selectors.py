"""Label and field selectors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kube_refusals import Refused

_SET = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")
_COMMA = re.compile(r",(?![^(]*\))")
FIELDS = {
    "Pod": {"metadata.name", "metadata.namespace", "spec.nodeName", "status.phase", "spec.restartPolicy"},
    "Node": {"metadata.name", "spec.unschedulable"},
    "Event": {"metadata.name", "metadata.namespace", "involvedObject.name", "involvedObject.kind",
              "involvedObject.uid", "involvedObject.namespace", "reason", "type"},
}  # fmt: skip


def labels_match(selector: str, obj: Mapping[str, Any]) -> bool:
    """As `kubectl -l`."""
    labels = obj.get("metadata", {}).get("labels") or {}
    return all(_label(term.strip(), labels) for term in _COMMA.split(selector) if term.strip())


def _label(term: str, labels: Mapping[str, str]) -> bool:
    found = _SET.match(term)
    if found:
        among = labels.get(found[1]) in {value.strip() for value in found[3].split(",")}
        return among if found[2] == "in" else not among
    if "!=" in term:
        name, value = term.split("!=", 1)
        return labels.get(name.strip()) != value.strip()
    if "=" in term:
        name, value = re.split("==?", term, maxsplit=1)
        return labels.get(name.strip()) == value.strip()
    return term[1:] not in labels if term.startswith("!") else term in labels


def fields_match(selector: str, kind: str, obj: Mapping[str, Any]) -> bool:
    """As `kubectl --field-selector`; a field that the kind does not offer is refused, as by the server."""
    for term in (term for term in selector.split(",") if term):
        name, value = re.split("!=|==?", term, maxsplit=1)
        if name not in FIELDS.get(kind, {"metadata.name", "metadata.namespace"}):
            raise Refused(400, "BadRequest", f"field label not supported: {name}")
        has: Any = obj
        for part in name.split("."):
            has = has.get(part, {}) if isinstance(has, Mapping) else {}
        text = str(has).lower() if isinstance(has, bool) else has or ""
        if (text == value) == ("!=" in term):
            return False
    return True


def matches(obj: Mapping[str, Any], *, kind: str, namespace: str, labels: str, fields: str) -> bool:
    """All at once."""
    if namespace and obj["metadata"].get("namespace", "") != namespace:
        return False
    return labels_match(labels, obj) and fields_match(fields, kind, obj)

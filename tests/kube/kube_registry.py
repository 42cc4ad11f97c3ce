"""Kinds that the fake API server knows, and the log of what happened to their objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_merge import BUILT_IN, ListKeys
from kube_refusals import expired
from kube_schema import list_keys
from kube_selectors import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One kind. `schema` None: built in, checked by hand where it matters."""

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True
    has_status: bool = False
    schema: Mapping[str, Any] | None = None
    keys: ListKeys = field(default_factory=lambda: BUILT_IN)

    @property
    def what(self) -> str:
        """As in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


BUILT_INS = (
    Known(plural="pods", kind="Pod", has_status=True),
    Known(plural="nodes", kind="Node", namespaced=False, has_status=True),
    Known(plural="services", kind="Service", has_status=True),
    Known(plural="configmaps", kind="ConfigMap"),
    Known(plural="secrets", kind="Secret"),
    Known(plural="events", kind="Event"),
    Known(plural="namespaces", kind="Namespace", namespaced=False, has_status=True),
    Known(group="coordination.k8s.io", plural="leases", kind="Lease"),
    Known(group="policy", plural="poddisruptionbudgets", kind="PodDisruptionBudget", has_status=True),
    Known(group="apiextensions.k8s.io", plural="customresourcedefinitions", kind="CustomResourceDefinition",
          namespaced=False, has_status=True),
)  # fmt: skip
NODE_CLAIMS = Known(
    group="karpenter.sh", plural="nodeclaims", kind="NodeClaim", namespaced=False, has_status=True,
    schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
)  # fmt: skip
DEVICE_TAINT_RULES = Known(
    group="resource.k8s.io", version="v1alpha3", plural="devicetaintrules", kind="DeviceTaintRule", namespaced=False,
    has_status=True,
)  # fmt: skip
RESOURCE_SLICES = Known(group="resource.k8s.io", plural="resourceslices", kind="ResourceSlice", namespaced=False)
"""Not on every cluster: a test registers them."""


def known_of_definition(definition: Mapping[str, Any]) -> list[Known]:
    """From a CustomResourceDefinition: one for each version that is served."""
    spec = definition["spec"]
    found = []
    for version in spec["versions"]:
        if not version.get("served", True):
            continue
        schema = version["schema"]["openAPIV3Schema"]
        found.append(
            Known(
                group=spec["group"],
                version=version["name"],
                plural=spec["names"]["plural"],
                kind=spec["names"]["kind"],
                namespaced=spec["scope"] == "Namespaced",
                has_status="status" in version.get("subresources", {}),
                schema=schema,
                keys=list_keys(schema),
            )
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One change; `before` None: it is new."""

    version: int
    known: Known
    change: str
    object: Mapping[str, Any]
    before: Mapping[str, Any] | None


class ChangeLog:
    """The last changes of all kinds, as the watch cache keeps them."""

    def __init__(self) -> None:
        self._changes: list[Logged] = []
        self.floor = 0
        """Watches from before this version are told 410."""

    def add(self, change: Logged) -> None:
        self._changes.append(change)

    def forget_until(self, version: int) -> None:
        """Compaction."""
        self.floor = version
        self._changes = [change for change in self._changes if change.version > version]

    def since(
        self, version: int, known: Known, *, namespace: str, labels: str, fields: str
    ) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
        """Version, change and object for a watch: what enters a selector is ADDED, what leaves it DELETED."""
        if version < self.floor:
            raise expired(version, self.floor)

        def seen(obj: Mapping[str, Any] | None) -> bool:
            return obj is not None and matches(obj, kind=known.kind, namespace=namespace, labels=labels, fields=fields)

        for change in self._changes:
            if change.version <= version or (change.known.group, change.known.plural) != (known.group, known.plural):
                continue
            now = change.change != "DELETED" and seen(change.object)
            was = seen(change.before)
            if now:
                yield change.version, "MODIFIED" if was else "ADDED", change.object
            elif was:
                yield change.version, "DELETED", change.object

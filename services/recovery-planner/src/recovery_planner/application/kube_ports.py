"""What the operator asks of a Kubernetes API server. Only adapters/kube_* know how it is asked.

Objects are plain JSON mappings, as the server sends them: a kind that is newer than this program needs no new class.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from service_kit.errors import CompareAndSetLost, PermanentError, ServiceError, TransientError

FIELD_MANAGER = "phalanx-operator"
"""Owner of every field that the operator applies."""

Obj = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object and where the server keeps it.

    Attributes:
        group: empty for the core group.
        plural: as in the path.
    """

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version


PODS = Kind(plural="pods", kind="Pod")
NODES = Kind(plural="nodes", kind="Node", namespaced=False)
SERVICES = Kind(plural="services", kind="Service")
CONFIG_MAPS = Kind(plural="configmaps", kind="ConfigMap")
EVENTS = Kind(plural="events", kind="Event")
NAMESPACES = Kind(plural="namespaces", kind="Namespace", namespaced=False)
LEASES = Kind(group="coordination.k8s.io", plural="leases", kind="Lease")
DISRUPTION_BUDGETS = Kind(group="policy", plural="poddisruptionbudgets", kind="PodDisruptionBudget")
TRAINING_JOBS = Kind(group="phalanx.dev", version="v1alpha1", plural="trainingjobs", kind="TrainingJob")
NODE_CLAIMS = Kind(group="karpenter.sh", plural="nodeclaims", kind="NodeClaim", namespaced=False)
RESOURCE_SLICES = Kind(group="resource.k8s.io", plural="resourceslices", kind="ResourceSlice", namespaced=False)
DEVICE_TAINT_RULES = Kind(
    group="resource.k8s.io", version="v1alpha3", plural="devicetaintrules", kind="DeviceTaintRule", namespaced=False
)


class KubeError(ServiceError):
    """The server said no, or nothing.

    Attributes:
        status: HTTP status; 0: there was no answer.
        reason: the server's word for it (`AlreadyExists`, `Expired`, ...).
        causes: field and message of each complaint.
    """

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", causes: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = causes


class KubeConflict(KubeError, CompareAndSetLost):
    """It changed since it was read, or another manager owns a field (see `causes`): read and decide again."""


class KubeAlreadyExists(KubeConflict):
    """An object of this name is there."""


class KubeNotFound(KubeError, PermanentError):
    """No such object, or no such kind on this server."""


class KubeGone(KubeError):
    """The version that a watch should begin at is too old: list again."""


class KubeForbidden(KubeError, PermanentError):
    """The service account may not do this, a quota is used up, or the namespace is being deleted."""

    @property
    def namespace_terminating(self) -> bool:
        """The namespace goes away; nothing new is made in it."""
        return any(field == "NamespaceTerminating" for field, _ in self.causes) or "being terminated" in str(self)

    @property
    def quota_exceeded(self) -> bool:
        """A resource quota forbids it now."""
        return "exceeded quota" in str(self)


class KubeInvalid(KubeError, PermanentError):
    """The object is not valid; `causes` name the fields."""


class KubeTooManyRequests(KubeError, TransientError):
    """Throttled, or a disruption budget forbids an eviction now."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 429,
        reason: str = "",
        causes: tuple[tuple[str, str], ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        KubeError.__init__(self, message, status=status, reason=reason, causes=causes)
        self.retry_after_s = retry_after_s

    @property
    def is_budget(self) -> bool:
        """It is a PodDisruptionBudget that refuses, not the server's flow control."""
        return any(field == "DisruptionBudget" for field, _ in self.causes)


class KubeUnavailable(KubeError, TransientError):
    """No answer, or the server is not well. What was asked may have been done."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: tuple[tuple[str, str], ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        KubeError.__init__(self, message, status=status, reason=reason, causes=causes)
        self.retry_after_s = retry_after_s


class KubeRefused(KubeError, PermanentError):
    """Any other refusal."""


class Change(StrEnum):
    """What happened to an object, in a watch. Closed."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """Nothing; the watch has come this far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One event of a watch. A DELETED one carries the last state."""

    change: Change
    object: Obj

    @property
    def resource_version(self) -> str:
        """Where a watch goes on from."""
        return str(self.object.get("metadata", {}).get("resourceVersion", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All objects as of one version."""

    items: tuple[Obj, ...]
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeEvent:
    """One event about one object.

    Attributes:
        about: the object; its apiVersion, kind and metadata are used.
        name: of the event; the same name is the same event, told once.
    """

    about: Obj
    name: str
    reason: str
    message: str
    warning: bool = False
    at: str = ""
    """RFC 3339, to the second."""


class KubeApi(Protocol):
    """One API server, by one service account. Every method may raise any KubeError.

    A KubeUnavailable leaves open whether a write was done; every write here may be repeated.
    """

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> Obj:
        """One object."""
        ...

    async def list(self, kind: Kind, *, namespace: str = "", labels: str = "", fields: str = "") -> Listing:
        """All that match; namespace empty: of all namespaces. `labels`, `fields`: selectors in the server's words."""
        ...

    def watch(
        self,
        kind: Kind,
        *,
        resource_version: str,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        timeout_s: float = 300.0,
    ) -> AsyncIterator[Changed]:
        """Changes after this version. It ends when the server ends it; watch again from the last version seen."""
        ...

    async def create(self, kind: Kind, body: Obj) -> Obj:
        """Make an object that must not exist yet."""
        ...

    async def apply(self, kind: Kind, body: Obj, *, subresource: str = "", force: bool = False) -> Obj:
        """Server-side apply as FIELD_MANAGER. Without `force` a field that another manager set otherwise is a conflict.

        With `metadata.resourceVersion` or `metadata.uid` in the body, it is applied to exactly that object.
        """
        ...

    async def patch(
        self, kind: Kind, name: str, body: Obj, *, namespace: str = "", subresource: str = "", strategic: bool = False
    ) -> Obj:
        """Merge patch; `strategic` merges lists by their keys (conditions, taints of built-in kinds)."""
        ...

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_s: int | None = None,
    ) -> None:
        """Delete exactly this object; one that is not there is a KubeNotFound, another uid a KubeConflict."""
        ...

    async def evict(self, name: str, *, namespace: str, uid: str = "", grace_s: int | None = None) -> None:
        """Ask for a pod to leave; KubeTooManyRequests.is_budget: a disruption budget says not now."""
        ...

    async def tell(self, event: KubeEvent) -> None:
        """Record an event. One of this name that is there already is the same one."""
        ...

    async def serves(self, kind: Kind) -> bool:
        """Whether this server knows the kind."""
        ...

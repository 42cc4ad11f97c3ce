"""One request to the fake API server, faults that a test plans for requests, and who may ask what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request.

    Attributes:
        verb: get list watch create update patch apply delete evict.
        patch: merge or strategic.
        manager: field manager of a write.
    """

    verb: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    patch: str = "merge"
    manager: str = "test"
    force: bool = False
    labels: str = ""
    fields: str = ""
    user: str = "admin"

    @property
    def writes(self) -> bool:
        return self.verb not in ("get", "list", "watch")

    @property
    def resource(self) -> str:
        """As in a rule of a role."""
        if self.verb == "evict":
            return "pods/eviction"
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural

    @property
    def rbac_verb(self) -> str:
        return {"apply": "patch", "evict": "create"}.get(self.verb, self.verb)


@dataclass(slots=True, kw_only=True)
class Trouble:
    """What happens to the next calls that match.

    Attributes:
        status: answered instead; 0: the connection is cut.
        after: the work is done first, so that the client does not know.
        times: how many calls; None: until the test takes it away.
        skip: calls that still go well before.
    """

    status: int = 0
    after: bool = False
    times: int | None = 1
    skip: int = 0
    verb: str = ""
    resource: str = ""
    writes_only: bool = False
    retry_after_s: int | None = None

    def hits(self, call: Call) -> bool:
        """Whether this call is one of them; counts."""
        if self.verb and self.verb != call.verb:
            return False
        if self.resource and self.resource != call.resource:
            return False
        if self.writes_only and not call.writes:
            return False
        if self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """As in a ClusterRole."""

    groups: tuple[str, ...] = ("",)
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    def allows(self, call: Call) -> bool:
        return (
            any(group in ("*", call.group if call.verb != "evict" else "") for group in self.groups)
            and any(resource in ("*", call.resource) for resource in self.resources)
            and any(verb in ("*", call.rbac_verb) for verb in self.verbs)
        )


def rules_of_role(role: Mapping[str, Any]) -> list[Rule]:
    """From a Role or ClusterRole, so that the shipped ones are tested."""
    return [
        Rule(groups=tuple(rule["apiGroups"]), resources=tuple(rule["resources"]), verbs=tuple(rule["verbs"]))
        for rule in role["rules"]
    ]

"""A copy of all objects of one kind, kept current by a watch; whoever needs it is told what changed.

List, then watch from there. A version that is too old, or a watch that broke: list again. While the server is away the
copy stays as it is: it is old, not empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from recovery_planner.application.kube_ports import Change, Kind, KubeApi, KubeError, KubeGone, Obj
from service_kit.errors import TransientError
from service_kit.logging import get_logger
from service_kit.ports import Clock

BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.5, 30.0

Key = tuple[str, str]
Told = Callable[[Obj], None]
GroupOf = Callable[[Obj], Key]

log = get_logger(__name__)


def key_of(obj: Obj) -> Key:
    """Namespace and name."""
    meta = obj.get("metadata", {})
    return str(meta.get("namespace", "")), str(meta.get("name", ""))


class KubeMirror:
    """One kind, by a label selector."""

    def __init__(
        self, api: KubeApi, clock: Clock, kind: Kind, *, labels: str = "", told: Told, group_of: GroupOf = key_of
    ) -> None:
        self._api = api
        self._clock = clock
        self._kind = kind
        self._labels = labels
        self._told = told
        self._group_of = group_of
        self._objects: dict[Key, Obj] = {}
        self._groups: dict[Key, dict[Key, Obj]] = defaultdict(dict)
        self.filled = False
        """Whether it was listed at least once."""

    def get(self, key: Key) -> Obj | None:
        """One object."""
        return self._objects.get(key)

    def group(self, key: Key) -> tuple[Obj, ...]:
        """All objects of one group, e.g. the pods of a job."""
        return tuple(self._groups[key].values()) if key in self._groups else ()

    def note(self, obj: Obj) -> None:
        """What a write of our own gave back: newer than what the watch told so far. One that has gone stays gone."""
        if key_of(obj) in self._objects:
            self._put(obj)

    async def run(self) -> None:
        """Keep it current until cancelled. Any refusal is tried again: rights may be granted while we wait."""
        wait_s = BACKOFF_FIRST_S
        while True:
            try:
                await self._list_and_watch()
                wait_s = BACKOFF_FIRST_S
                continue
            except KubeGone:
                log.info("watch_expired", kind=self._kind.plural)
                continue
            except KubeError as error:
                log.warning("watch_failed", kind=self._kind.plural, error=str(error), retry_in_s=wait_s)
                asked_s = error.retry_after_s if isinstance(error, TransientError) else None
                await self._clock.sleep(max(wait_s, asked_s or 0.0))
                wait_s = min(wait_s * 2, BACKOFF_MAX_S)

    async def _list_and_watch(self) -> None:
        listing = await self._api.list(self._kind, labels=self._labels)
        self._replace(listing.items)
        version = listing.resource_version
        while True:
            async for changed in self._api.watch(self._kind, resource_version=version, labels=self._labels):
                version = changed.resource_version or version
                match changed.change:
                    case Change.ADDED | Change.MODIFIED:
                        self._put(changed.object)
                    case Change.DELETED:
                        self._drop(key_of(changed.object))
                    case Change.BOOKMARK:
                        continue
                self._told(changed.object)

    def _replace(self, items: tuple[Obj, ...]) -> None:
        before = dict(self._objects)
        for key in before:
            self._drop(key)
        for item in items:
            self._put(item)
        self.filled = True
        for key, item in {**before, **self._objects}.items():
            if before.get(key) != self._objects.get(key):
                self._told(item)

    def _put(self, obj: Obj) -> None:
        key = key_of(obj)
        known = self._objects.get(key)
        if known is not None:
            same = known["metadata"].get("uid") == obj["metadata"].get("uid")
            if same and _version(obj) < _version(known):
                return
            self._drop(key)
        self._objects[key] = obj
        self._groups[self._group_of(obj)][key] = obj

    def _drop(self, key: Key) -> None:
        gone = self._objects.pop(key, None)
        if gone is not None:
            group = self._group_of(gone)
            self._groups[group].pop(key, None)
            if not self._groups[group]:
                del self._groups[group]


def _version(obj: Obj) -> int:
    """Resource versions of one kind are compared as numbers (Kubernetes 1.35 says that this is allowed)."""
    text = str(obj.get("metadata", {}).get("resourceVersion", "0"))
    return int(text) if text.isdecimal() else 0

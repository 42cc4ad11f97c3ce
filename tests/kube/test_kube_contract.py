"""What the operator relies on in an API server. The fake must keep it, and a real one shows that it is true.

`KUBECONFIG=... pytest tests/kube/test_kube_contract.py` runs all of it on that cluster.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from conftest import Server
from recovery_planner.application.kube_ports import (
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    EVENTS,
    NODE_CLAIMS,
    NODES,
    PODS,
    Change,
    Changed,
    Kind,
    KubeAlreadyExists,
    KubeConflict,
    KubeEvent,
    KubeGone,
    KubeInvalid,
    KubeNotFound,
    KubeTooManyRequests,
    Obj,
)

pytestmark = pytest.mark.asyncio
DEFINITIONS = Kind(
    group="apiextensions.k8s.io", plural="customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
WIDGETS = Kind(group="test.phalanx.dev", plural="widgets", kind="Widget")


def config_map(server: Server, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": server.namespace, "labels": {"of": name}}, "data": data}


def pod(server: Server, name: str, **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none.invalid/none"}
    return {
        "metadata": {"name": name, "namespace": server.namespace, **metadata},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 7, "automountServiceAccountToken": False},
    }


@asynccontextmanager
async def node(server: Server, name: str, **spec: Any) -> AsyncIterator[Obj]:
    try:
        yield await server.api.create(NODES, {"metadata": {"name": name}, "spec": spec})
    finally:
        await server.api.delete(NODES, name)


async def running_pod(server: Server, name: str, node_name: str, **metadata: Any) -> Obj:
    body = pod(server, name, **metadata)
    body["spec"]["nodeName"] = node_name
    await server.api.create(PODS, body)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await server.api.patch(
        PODS, name, {"status": status}, namespace=server.namespace, subresource="status", strategic=True
    )


async def taken(server: Server, kind: Kind, count: int, **more: Any) -> list[Changed]:
    """The first changes of a watch, bookmarks left out."""
    found: list[Changed] = []
    async with asyncio.timeout(20):
        async with aclosing(server.api.watch(kind, namespace=server.namespace, **more)) as changes:
            async for change in changes:
                if change.change is not Change.BOOKMARK:
                    found.append(change)
                if len(found) >= count:
                    return found
    return found


async def served(server: Server, kind: Kind) -> None:
    for _ in range(200):
        if await server.api.serves(kind):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{kind.plural} are not served")


async def test_versions_grow_and_writes_of_old_ones_are_refused(server: Server) -> None:
    first = await server.api.create(CONFIG_MAPS, config_map(server, "a", x="1"))
    version = first["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "data": {"x": "2"}}
    second = await server.api.patch(CONFIG_MAPS, "a", body, namespace=server.namespace)
    assert second["metadata"]["resourceVersion"] != version
    with pytest.raises(KubeConflict):
        await server.api.patch(CONFIG_MAPS, "a", body, namespace=server.namespace)
    with pytest.raises(KubeAlreadyExists):
        await server.api.create(CONFIG_MAPS, config_map(server, "a"))
    with pytest.raises(KubeNotFound):
        await server.api.get(CONFIG_MAPS, "b", namespace=server.namespace)


async def test_a_change_that_changes_nothing_makes_no_new_version(server: Server) -> None:
    before = await server.api.apply(CONFIG_MAPS, config_map(server, "same", x="1"))
    after = await server.api.apply(CONFIG_MAPS, config_map(server, "same", x="1"))
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_selectors(server: Server) -> None:
    for name in ("a", "b", "c"):
        await server.api.create(CONFIG_MAPS, config_map(server, name))
    found = await server.api.list(CONFIG_MAPS, namespace=server.namespace, labels="of in (a, c)")
    assert [item["metadata"]["name"] for item in found.items] == ["a", "c"]
    found = await server.api.list(CONFIG_MAPS, namespace=server.namespace, fields="metadata.name=b")
    assert [item["metadata"]["name"] for item in found.items] == ["b"]
    assert found.items[0]["kind"] == "ConfigMap"


async def test_a_watch_goes_on_from_a_list(server: Server) -> None:
    await server.api.create(CONFIG_MAPS, config_map(server, "old"))
    version = (await server.api.list(CONFIG_MAPS, namespace=server.namespace)).resource_version
    await server.api.create(CONFIG_MAPS, config_map(server, "new", x="1"))
    await server.api.patch(CONFIG_MAPS, "new", {"data": {"x": "2"}}, namespace=server.namespace)
    await server.api.delete(CONFIG_MAPS, "new", namespace=server.namespace)
    changes = await taken(server, CONFIG_MAPS, 3, resource_version=version, labels="of=new")
    assert [change.change for change in changes] == [Change.ADDED, Change.MODIFIED, Change.DELETED]
    assert changes[1].object["data"] == {"x": "2"}


async def test_what_leaves_a_selector_is_deleted_for_the_watch(server: Server) -> None:
    made = await server.api.create(CONFIG_MAPS, config_map(server, "a"))
    version = made["metadata"]["resourceVersion"]
    await server.api.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"of": "z"}}}, namespace=server.namespace)
    changes = await taken(server, CONFIG_MAPS, 1, resource_version=version, labels="of=a")
    assert changes[0].change is Change.DELETED


async def test_a_watch_ends_by_its_time_and_gave_a_bookmark_or_nothing(server: Server) -> None:
    version = (await server.api.list(CONFIG_MAPS, namespace=server.namespace)).resource_version
    seen = [
        change
        async for change in server.api.watch(
            CONFIG_MAPS, namespace=server.namespace, labels="of=nothing", resource_version=version, timeout_s=1
        )
    ]
    assert all(change.change is Change.BOOKMARK for change in seen)


async def test_a_watch_from_a_version_that_is_too_old_is_told_so(server: Server) -> None:
    if server.cluster is None:
        pytest.skip("a real server forgets in its own time")
    server.cluster.create("configmaps", config_map(server, "x"), namespace=server.namespace)
    server.cluster.expire()
    with pytest.raises(KubeGone):
        await taken(server, CONFIG_MAPS, 1, resource_version="1")


async def test_apply_owns_fields_and_sees_who_else_does(server: Server) -> None:
    await server.api.create(CONFIG_MAPS, config_map(server, "a", theirs="1"))
    ours: dict[str, Any] = {"metadata": {"name": "a", "namespace": server.namespace}, "data": {"ours": "1"}}
    merged = await server.api.apply(CONFIG_MAPS, ours)
    assert merged["data"] == {"theirs": "1", "ours": "1"}
    gone = await server.api.apply(CONFIG_MAPS, {**ours, "data": {"other": "1"}})
    assert gone["data"] == {"theirs": "1", "other": "1"}


async def test_a_merge_patch_of_ours_conflicts_with_our_own_apply(server: Server) -> None:
    body = config_map(server, "a", x="1")
    await server.api.apply(CONFIG_MAPS, body)
    await server.api.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, namespace=server.namespace)
    # The same manager by another operation: the server takes them for two.
    with pytest.raises(KubeConflict) as refused:
        await server.api.apply(CONFIG_MAPS, body)
    assert any(".data.x" in field for field, _ in refused.value.causes)
    forced = await server.api.apply(CONFIG_MAPS, body, force=True)
    assert forced["data"] == {"x": "1"}


async def test_delete_of_exactly_this_object(server: Server) -> None:
    made = await server.api.create(CONFIG_MAPS, config_map(server, "a"))
    with pytest.raises(KubeConflict):
        await server.api.delete(
            CONFIG_MAPS, "a", namespace=server.namespace, uid="00000000-0000-4000-8000-00000000dead"
        )
    await server.api.delete(CONFIG_MAPS, "a", namespace=server.namespace, uid=made["metadata"]["uid"])
    with pytest.raises(KubeNotFound):
        await server.api.delete(CONFIG_MAPS, "a", namespace=server.namespace)


async def test_finalizers_keep_an_object(server: Server) -> None:
    body = config_map(server, "a")
    body["metadata"]["finalizers"] = ["test.phalanx.dev/hold"]
    await server.api.create(CONFIG_MAPS, body)
    await server.api.delete(CONFIG_MAPS, "a", namespace=server.namespace)
    held = await server.api.get(CONFIG_MAPS, "a", namespace=server.namespace)
    assert held["metadata"]["deletionTimestamp"]
    await server.api.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, namespace=server.namespace)
    with pytest.raises(KubeNotFound):
        await server.api.get(CONFIG_MAPS, "a", namespace=server.namespace)


async def test_a_bound_pod_waits_for_its_kubelet_and_grace_zero_does_not(server: Server, unique_name: str) -> None:
    async with node(server, unique_name):
        await running_pod(server, "p", unique_name)
        await server.api.delete(PODS, "p", namespace=server.namespace)
        going = await server.api.get(PODS, "p", namespace=server.namespace)
        assert going["metadata"]["deletionTimestamp"]
        assert going["metadata"]["deletionGracePeriodSeconds"] == 7
        await server.api.delete(PODS, "p", namespace=server.namespace, grace_s=0)
        with pytest.raises(KubeNotFound):
            await server.api.get(PODS, "p", namespace=server.namespace)


async def test_eviction_asks_the_disruption_budget(server: Server, unique_name: str) -> None:
    async with node(server, unique_name):
        await running_pod(server, "p", unique_name, labels={"app": "x"})
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        limit = {"metadata": {"name": "limit", "namespace": server.namespace}, "spec": spec}
        await server.api.create(DISRUPTION_BUDGETS, limit)
        with pytest.raises(KubeTooManyRequests) as refused:
            await server.api.evict("p", namespace=server.namespace)
        assert refused.value.is_budget or server.cluster is None  # without its controller a real budget is not ready
        await server.api.delete(DISRUPTION_BUDGETS, "limit", namespace=server.namespace)
        await server.api.evict("p", namespace=server.namespace, grace_s=5)
        evicted = await server.api.get(PODS, "p", namespace=server.namespace)
        assert evicted["metadata"]["deletionTimestamp"]
        assert "DisruptionTarget" in {condition["type"] for condition in evicted["status"]["conditions"]}
        await server.api.delete(PODS, "p", namespace=server.namespace, grace_s=0)


async def test_conditions_of_a_node_are_merged_by_type_and_taints_are_not(server: Server, unique_name: str) -> None:
    async with node(server, unique_name, taints=[{"key": "a", "effect": "NoSchedule"}]):
        theirs = {"status": {"conditions": [{"type": "Theirs", "status": "True", "reason": "R", "message": "m"}]}}
        await server.api.patch(NODES, unique_name, theirs, subresource="status", strategic=True)
        ours = {"type": "Ours", "status": "False", "reason": "R", "message": "m"}
        applied = {"metadata": {"name": unique_name}, "status": {"conditions": [ours]}}
        after = await server.api.apply(NODES, applied, subresource="status")
        assert {condition["type"] for condition in after["status"]["conditions"]} == {"Theirs", "Ours"}
        taints = {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}
        after = await server.api.patch(NODES, unique_name, taints, strategic=True)
        assert "b" in {taint["key"] for taint in after["spec"]["taints"]}
        assert "a" not in {taint["key"] for taint in after["spec"]["taints"]}


async def test_status_and_spec_are_written_apart(server: Server, unique_name: str) -> None:
    async with node(server, unique_name):
        both = {"spec": {"unschedulable": True}, "status": {"nodeInfo": {"kernelVersion": "9"}}}
        after = await server.api.patch(NODES, unique_name, both, strategic=True)
        assert after["spec"]["unschedulable"] is True
        assert after.get("status", {}).get("nodeInfo", {}).get("kernelVersion", "") != "9"
        cordon = {"spec": {"unschedulable": None}, "metadata": {"annotations": {"x": "1"}}}
        after = await server.api.patch(NODES, unique_name, cordon, subresource="status", strategic=True)
        assert after["spec"]["unschedulable"] is True


async def test_invalid_objects_are_refused_with_the_field(server: Server) -> None:
    body = pod(server, "p")
    body["spec"]["containers"] = []
    with pytest.raises(KubeInvalid) as refused:
        await server.api.create(PODS, body)
    assert "spec.containers" in {field for field, _ in refused.value.causes}


async def test_a_custom_resource_has_schema_defaults_and_status(server: Server) -> None:
    spec = {"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "red"}}}  # fmt: skip
    schema = {"type": "object", "properties": {
        "spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}  # fmt: skip
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
               "subresources": {"status": {}}}  # fmt: skip
    definition = {
        "metadata": {"name": "widgets.test.phalanx.dev"},
        "spec": {"group": "test.phalanx.dev", "scope": "Namespaced", "versions": [version],
                 "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"}},
    }  # fmt: skip
    await server.api.apply(DEFINITIONS, definition)
    await served(server, WIDGETS)
    metadata = {"name": "w", "namespace": server.namespace}
    try:
        made = await server.api.create(WIDGETS, {"metadata": metadata, "spec": {"size": 1, "other": 1}})
        assert made["spec"] == {"size": 1, "colour": "red"}
        with pytest.raises(KubeInvalid) as refused:
            await server.api.create(WIDGETS, {"metadata": {**metadata, "name": "x"}, "spec": {"size": 0}})
        assert "spec.size" in {field for field, _ in refused.value.causes}
        told = await server.api.apply(WIDGETS, {"metadata": metadata, "status": {"ready": 1}}, subresource="status")
        assert (told["status"], told["metadata"]["generation"]) == ({"ready": 1}, 1)
        changed = await server.api.patch(WIDGETS, "w", {"spec": {"size": 2}}, namespace=server.namespace)
        assert (changed["status"], changed["metadata"]["generation"]) == ({"ready": 1}, 2)
    finally:
        await server.api.delete(DEFINITIONS, "widgets.test.phalanx.dev")


async def test_an_event_is_told_once(server: Server) -> None:
    about = await server.api.create(CONFIG_MAPS, config_map(server, "a"))
    event = KubeEvent(
        about={"apiVersion": "v1", "kind": "ConfigMap", **about}, name="a.1", reason="Tried", message="it was tried"
    )
    await server.api.tell(event)
    await server.api.tell(event)
    found = await server.api.list(EVENTS, namespace=server.namespace, fields="involvedObject.name=a")
    assert [(item["reason"], item["message"]) for item in found.items] == [("Tried", "it was tried")]


async def test_kinds_that_are_not_there(server: Server) -> None:
    assert await server.api.serves(PODS)
    if server.cluster is not None:
        assert not await server.api.serves(NODE_CLAIMS)
        with pytest.raises(KubeNotFound):
            await server.api.list(NODE_CLAIMS)

"""The operator's client against a server that fails: each sort of failure has its name, and nothing hangs."""

import asyncio
from contextlib import aclosing

import pytest
from kube_call import Rule, Trouble
from kube_cluster import Cluster
from kube_http import HttpCluster

from conftest import on_url
from recovery_planner.adapters.kube_api import KubernetesApi, configured
from recovery_planner.application.kube_ports import (
    CONFIG_MAPS,
    PODS,
    Changed,
    KubeConflict,
    KubeForbidden,
    KubeGone,
    KubeTooManyRequests,
    KubeUnavailable,
)
from service_kit.errors import CompareAndSetLost, PermanentError, TransientError

pytestmark = pytest.mark.asyncio
BODY = {"metadata": {"name": "a", "namespace": "default"}, "data": {"x": "1"}}


async def test_throttled_says_when_to_come_again(cluster: Cluster, client: KubernetesApi) -> None:
    cluster.troubles.append(Trouble(status=429, retry_after_s=7))
    with pytest.raises(KubeTooManyRequests) as refused:
        await client.list(PODS)
    assert (refused.value.retry_after_s, refused.value.is_budget) == (7, False)
    assert isinstance(refused.value, TransientError)
    assert (await client.list(PODS)).items == ()


@pytest.mark.parametrize("status", [500, 503])
async def test_a_sick_server_may_be_asked_again(cluster: Cluster, client: KubernetesApi, status: int) -> None:
    cluster.troubles.append(Trouble(status=status))
    with pytest.raises(KubeUnavailable) as refused:
        await client.create(CONFIG_MAPS, BODY)
    assert refused.value.status == status
    assert len(cluster.calls) == 1  # the client itself repeats nothing


async def test_an_answer_that_is_cut_off_leaves_it_open_whether_it_was_done(
    cluster: Cluster, client: KubernetesApi
) -> None:
    cluster.troubles.append(Trouble(after=True, verb="create"))
    with pytest.raises(KubeUnavailable):
        await client.create(CONFIG_MAPS, BODY)
    assert cluster.find("configmaps", "a", namespace="default") is not None
    assert len(cluster.calls) == 1


async def test_a_conflict_is_a_lost_compare_and_set(cluster: Cluster, client: KubernetesApi) -> None:
    cluster.troubles.append(Trouble(status=409))
    with pytest.raises(KubeConflict) as refused:
        await client.apply(CONFIG_MAPS, BODY)
    assert isinstance(refused.value, CompareAndSetLost)


async def test_a_server_that_is_away(http_cluster: HttpCluster) -> None:
    client = on_url(http_cluster.url)
    http_cluster.stop()
    with pytest.raises(KubeUnavailable):
        await client.get(PODS, "a", namespace="default")
    await client.close()


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = on_url(f"http://127.0.0.1:{port}", request_s=0.2)
    with pytest.raises(KubeUnavailable):
        await client.get(PODS, "a", namespace="default")
    await client.close()
    server.close()


async def test_a_page_of_a_proxy_is_no_object() -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 15\r\nConnection: close\r\n\r\n<html>oh</html>")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = on_url(f"http://127.0.0.1:{port}")
    with pytest.raises(KubeUnavailable, match="502"):
        await client.get(PODS, "a", namespace="default")
    await client.close()
    server.close()


async def test_a_watch_that_breaks_says_so_and_one_that_expired_as_well(
    cluster: Cluster, http_cluster: HttpCluster, client: KubernetesApi
) -> None:
    version = str(cluster.version)
    seen: list[Changed] = []

    async def follow(from_version: str) -> None:
        async with aclosing(client.watch(CONFIG_MAPS, resource_version=from_version)) as changes:
            async for change in changes:
                seen.append(change)
                http_cluster.cut_watches += 1

    cluster.create("configmaps", BODY, namespace="default")
    with pytest.raises(KubeUnavailable):
        await asyncio.wait_for(follow(version), 20)
    assert [change.object["metadata"]["name"] for change in seen] == ["a"]
    cluster.create("configmaps", {"metadata": {"name": "b"}}, namespace="default")
    cluster.expire()
    with pytest.raises(KubeGone):
        await asyncio.wait_for(follow(version), 20)


async def test_a_watch_that_nobody_reads_any_more_ends(cluster: Cluster, client: KubernetesApi) -> None:
    async def follow() -> None:
        async for _ in client.watch(CONFIG_MAPS, resource_version=str(cluster.version)):
            pass  # until it is cancelled

    following = asyncio.ensure_future(follow())
    while not any(call.verb == "watch" for call in cluster.calls):  # noqa: ASYNC110 - in another thread
        await asyncio.sleep(0.01)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert (await client.list(CONFIG_MAPS)).items == ()  # and the client goes on


async def test_tokens_and_roles(cluster: Cluster) -> None:
    cluster.rules["reader"] = [Rule(resources=("pods",), verbs=("list",))]
    server = HttpCluster(cluster, tokens={"secret": "reader"})
    server.start()
    reader, stranger = on_url(server.url, token="secret"), on_url(server.url, token="wrong")
    assert (await reader.list(PODS)).items == ()
    with pytest.raises(KubeForbidden, match="cannot create"):
        await reader.create(CONFIG_MAPS, BODY)
    with pytest.raises(KubeForbidden) as refused:
        await stranger.list(PODS)
    assert refused.value.status == 401
    await reader.close()
    await stranger.close()
    server.stop()


async def test_no_configuration_is_said_at_once(tmp_path: object) -> None:
    with pytest.raises(PermanentError, match="no access"):
        await configured(f"{tmp_path}/none")

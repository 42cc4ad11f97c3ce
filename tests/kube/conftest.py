"""API servers for the tests: the fake in memory, the fake behind HTTP and the official client, and a real one.

The real one is used when KUBECONFIG names a cluster that may be written to; every test keeps to a namespace and nodes
of its own and removes them.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from kube_cluster import Cluster
from kube_http import HttpCluster
from kube_memory import MemoryKube
from kubernetes.aio.client import Configuration

from recovery_planner.adapters.kube_api import KubernetesApi, configured
from recovery_planner.application.kube_ports import NAMESPACES, KubeApi, KubeNotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One API server as the contract suite sees it. `cluster` None: a real one."""

    api: KubeApi
    namespace: str
    cluster: Cluster | None = None
    http: HttpCluster | None = None


def on_url(url: str, *, token: str = "", request_s: float = 5) -> KubernetesApi:
    """The operator's client on a fake server."""
    configuration = Configuration()
    configuration.host = url
    if token:
        configuration.api_key = {"BearerToken": f"Bearer {token}"}
    return KubernetesApi(configuration, request_s=request_s)


@pytest.fixture
def cluster() -> Cluster:
    """An empty fake cluster."""
    return Cluster()


@pytest.fixture
def http_cluster(cluster: Cluster) -> Iterator[HttpCluster]:
    """The same behind HTTP."""
    server = HttpCluster(cluster)
    server.start()
    yield server
    server.stop()


@pytest_asyncio.fixture
async def client(http_cluster: HttpCluster) -> AsyncIterator[KubernetesApi]:
    """The operator's client on it."""
    api = on_url(http_cluster.url)
    yield api
    await api.close()


@pytest_asyncio.fixture(params=["memory", "http", "real"])
async def server(request: pytest.FixtureRequest, unique_name: str) -> AsyncIterator[Server]:
    """Each of the three."""
    namespace = f"phx-{unique_name}"[-60:].lstrip("-")
    if request.param == "memory":
        cluster = Cluster()
        cluster.create("namespaces", {"metadata": {"name": namespace}})
        yield Server(api=MemoryKube(cluster), namespace=namespace, cluster=cluster)
    elif request.param == "http":
        http = request.getfixturevalue("http_cluster")
        http.cluster.create("namespaces", {"metadata": {"name": namespace}})
        api = on_url(http.url)
        yield Server(api=api, namespace=namespace, cluster=http.cluster, http=http)
        await api.close()
    else:
        config = os.environ.get("KUBECONFIG", "")
        if not config:
            pytest.skip("no real API server: KUBECONFIG is not set")
        api = KubernetesApi(await configured(config))
        await api.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield Server(api=api, namespace=namespace)
        with contextlib.suppress(KubeNotFound):
            await api.delete(NAMESPACES, namespace)
        await api.close()

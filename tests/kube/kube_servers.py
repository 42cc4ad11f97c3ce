"""One API server as the tests see it, and the operator's client on a fake one."""

from dataclasses import dataclass

from kube_cluster import Cluster
from kube_http import HttpCluster
from kubernetes.aio.client import Configuration

from recovery_planner.adapters.kube_api import KubernetesApi
from recovery_planner.application.kube_ports import KubeApi


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

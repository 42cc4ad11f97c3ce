"""The KubeApi port on the official client (`kubernetes.aio`): raw paths and plain JSON, no models.

The client's own retries are off: whoever asks owns the retry. A watch that hears nothing for longer than the server was
asked to keep it is given up, because a connection that died silently looks the same for ever otherwise.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException

from recovery_planner.adapters.kube_errors import kube_error, retry_after
from recovery_planner.adapters.kube_events import event_body
from recovery_planner.adapters.kube_paths import (
    Request,
    apply_request,
    create_request,
    delete_options,
    evict_request,
    list_request,
    patch_request,
    path_of,
    watch_request,
)
from recovery_planner.application.kube_ports import (
    EVENTS,
    FIELD_MANAGER,
    Change,
    Changed,
    Kind,
    KubeAlreadyExists,
    KubeError,
    KubeEvent,
    KubeNotFound,
    KubeRefused,
    KubeUnavailable,
    Listing,
    Obj,
)
from service_kit.errors import PermanentError
from service_kit.logging import get_logger

REQUEST_LIMIT_S = 30.0
"""One request but a watch. An API server's own limit is 60 s (--request-timeout); asking again is better."""
WATCH_SLACK_S = 5.0
"""Beyond the time that the server was asked to end a watch after."""
PAGES_MAX = 1_000
LINE_MAX = 4 * 1024 * 1024
"""Bytes of one event of a watch; etcd keeps objects of 1.5 MB."""
CHUNK = 65_536

_KNOWN = frozenset({*(str(change) for change in Change), "ERROR"})

log = get_logger(__name__)


async def configured(kubeconfig: str | None = None) -> Configuration:
    """The service account of the pod, or a kubeconfig file; $KUBECONFIG and ~/.kube/config where neither is there.

    Raises:
        PermanentError: no configuration is found, or it cannot be read.
    """
    configuration = Configuration()
    try:
        if kubeconfig is None:
            with contextlib.suppress(ConfigException):
                kube_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
                return configuration
        await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=kubeconfig, client_configuration=configuration
        )
    except (ConfigException, OSError, ValueError) as error:
        raise PermanentError(f"no access to a Kubernetes API server: {error}") from error
    return configuration


class KubernetesApi:
    """`recovery_planner.application.kube_ports.KubeApi`. Use as an async context manager."""

    def __init__(self, configuration: Configuration, *, request_s: float = REQUEST_LIMIT_S) -> None:
        self._request_s = request_s
        configuration.retries = None
        configuration.client_go_retries = False
        self._configuration = configuration
        self._client = ApiClient(configuration)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Close connections; watches under way end."""
        await self._client.close()  # type: ignore[no-untyped-call]

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> Obj:
        """See KubeApi."""
        return await self._ask(Request(method="GET", path=path_of(kind, namespace=namespace, name=name)))

    async def list(self, kind: Kind, *, namespace: str = "", labels: str = "", fields: str = "") -> Listing:
        """See KubeApi. Read page by page, all of one version."""
        items: list[Obj] = []
        page = ""
        for _ in range(PAGES_MAX):
            answer = await self._ask(list_request(kind, namespace=namespace, labels=labels, fields=fields, page=page))
            metadata = answer.get("metadata", {})
            # Items of a list carry neither kind nor apiVersion: the list says it once.
            items += [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in answer.get("items") or ()]
            page = metadata.get("continue", "")
            if not page:
                return Listing(items=tuple(items), resource_version=str(metadata.get("resourceVersion", "")))
        raise KubeUnavailable(f"the list of {kind.plural} does not end after {PAGES_MAX} pages")

    async def watch(
        self,
        kind: Kind,
        *,
        resource_version: str,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        timeout_s: float = 300.0,
    ) -> AsyncIterator[Changed]:
        """See KubeApi."""
        request = watch_request(
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            timeout_s=timeout_s,
        )
        limit = aiohttp.ClientTimeout(total=timeout_s + WATCH_SLACK_S, sock_connect=self._request_s)
        async with self._answer(request, limit=limit) as response:
            async for line in _lines(response, request):
                yield _changed(line, request)

    async def create(self, kind: Kind, body: Obj) -> Obj:
        """See KubeApi."""
        return await self._ask(create_request(kind, body))

    async def apply(self, kind: Kind, body: Obj, *, subresource: str = "", force: bool = False) -> Obj:
        """See KubeApi."""
        return await self._ask(apply_request(kind, body, subresource=subresource, force=force))

    async def patch(
        self, kind: Kind, name: str, body: Obj, *, namespace: str = "", subresource: str = "", strategic: bool = False
    ) -> Obj:
        """See KubeApi."""
        return await self._ask(
            patch_request(kind, name, body, namespace=namespace, subresource=subresource, strategic=strategic)
        )

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
        """See KubeApi."""
        options = delete_options(uid=uid, resource_version=resource_version, grace_s=grace_s)
        await self._ask(Request(method="DELETE", path=path_of(kind, namespace=namespace, name=name), body=options))

    async def evict(self, name: str, *, namespace: str, uid: str = "", grace_s: int | None = None) -> None:
        """See KubeApi."""
        await self._ask(evict_request(name, namespace=namespace, uid=uid, grace_s=grace_s))

    async def tell(self, event: KubeEvent) -> None:
        """See KubeApi."""
        try:
            await self.create(EVENTS, event_body(event))
        except KubeAlreadyExists:
            log.debug("kube_event_told_before", name=event.name)

    async def serves(self, kind: Kind) -> bool:
        """See KubeApi."""
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        try:
            found = await self._ask(Request(method="GET", path=root))
        except KubeNotFound:
            return False
        return any(entry.get("name") == kind.plural for entry in found.get("resources") or ())

    async def _ask(self, request: Request) -> dict[str, Any]:
        limit = aiohttp.ClientTimeout(total=self._request_s)
        async with self._answer(request, limit=limit) as answer:
            try:
                return _object(await answer.read())
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _lost(request, error) from error

    @contextlib.asynccontextmanager
    async def _answer(self, request: Request, *, limit: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request; its answer if that is 2xx."""
        headers = {"Accept": "application/json", "Content-Type": request.content_type, "User-Agent": FIELD_MANAGER}
        url = self._configuration.host.rstrip("/") + request.target
        try:
            await self._client.update_params_for_auth(
                headers, [], ["BearerToken"], request.path, request.method, request.body
            )
            wrapped = await self._client.rest_client.request(  # type: ignore[no-untyped-call]
                request.method, url, headers=headers, body=request.body, _request_timeout=limit
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _lost(request, error) from error
        response: aiohttp.ClientResponse = wrapped.response
        try:
            if response.status >= 300:
                raise await _refusal(request, response)
            yield response
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()


async def _refusal(request: Request, response: aiohttp.ClientResponse) -> KubeError:
    try:
        body = _object(await response.read())
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return _lost(request, error)
    return kube_error(response.status, body, retry_after_s=retry_after(response.headers.get("Retry-After")))


async def _lines(response: aiohttp.ClientResponse, request: Request) -> AsyncIterator[bytes]:
    """Events are lines, and may be longer than the client's own reader of lines takes."""
    rest = b""
    try:
        async for chunk in response.content.iter_chunked(CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_MAX:
                raise KubeRefused(f"{request.path}: an event of a watch is larger than {LINE_MAX} bytes")
            for line in lines:
                if line.strip():
                    yield line
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _lost(request, error) from error


def _changed(line: bytes, request: Request) -> Changed:
    """One line of a watch. An ERROR in it is a refusal that came late.

    Raises:
        KubeError: it is one.
    """
    event = _object(line)
    kind, obj = event.get("type"), event.get("object")
    if not isinstance(obj, Mapping) or kind not in _KNOWN:
        raise KubeUnavailable(f"{request.path}: an event of type {str(kind)[:40]!r} in a watch")
    if kind == "ERROR":
        raise kube_error(int(obj.get("code") or 500), obj)
    return Changed(change=Change(str(kind)), object=obj)


def _object(raw: bytes) -> dict[str, Any]:
    """A JSON object; anything else, such as the page of a proxy, is an empty one."""
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lost(request: Request, error: BaseException) -> KubeUnavailable:
    said = str(error) or type(error).__name__
    return KubeUnavailable(f"{request.method} {request.path}: no answer from the API server: {said[:300]}")

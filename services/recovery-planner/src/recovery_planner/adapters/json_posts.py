"""Who the operator tells things by HTTP: health-ingest's door for signals, and a service that replaces machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp

from service_kit.errors import PermanentError, TransientError

SIGNALS_PATH = "/v1/signals/node-problem-detector"
REQUEST_S = 10.0
SAID_MAX = 300
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class JsonPost:
    """One address, and the session that is opened with the first request."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._session: aiohttp.ClientSession | None = None

    async def send(self, body: Mapping[str, Any]) -> None:
        """Post it; any 2xx is enough. Redirects are not followed: they would carry the token elsewhere.

        Raises:
            TransientError: not taken now.
            PermanentError: refused.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_S))
        try:
            async with self._session.post(
                self._url, json=dict(body), headers=self._headers, allow_redirects=False
            ) as answer:
                if 200 <= answer.status < 300:
                    return
                said = (await answer.content.read(SAID_MAX)).decode(errors="replace")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransientError(f"{self._url} does not answer: {error}") from error
        text = f"{self._url} answered {answer.status}: {said}"
        if answer.status in _AGAIN:
            raise TransientError(text)
        raise PermanentError(text)

    async def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            await self._session.close()


class HttpSignalDoor(JsonPost):
    """application.forward_conditions.SignalDoor. `url` is that of health-ingest, without a path."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url.rstrip("/") + SIGNALS_PATH, token)

    async def tell(self, body: Mapping[str, Any]) -> None:
        """See the port."""
        await self.send(body)


class HttpReplacementHook(JsonPost):
    """application.retire_nodes.ReplacementHook."""

    async def replace(self, body: Mapping[str, Any]) -> None:
        """See the port."""
        await self.send(body)

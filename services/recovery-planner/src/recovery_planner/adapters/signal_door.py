"""application.forward_conditions.SignalDoor over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp

from service_kit.errors import PermanentError, TransientError

PATH = "/v1/signals/node-problem-detector"
REQUEST_S = 10.0
SAID_MAX = 300


class HttpSignalDoor:
    """One session; `close` it."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/") + PATH
        self._headers = {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession | None = None

    async def tell(self, body: Mapping[str, Any]) -> None:
        """See the port."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_S))
        try:
            async with self._session.post(self._url, json=dict(body), headers=self._headers) as answer:
                if answer.status < 300:
                    return
                said = f"{self._url} answered {answer.status}: {(await answer.text())[:SAID_MAX]}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransientError(f"{self._url} does not answer: {error}") from error
        if answer.status in (429, 503):
            raise TransientError(said)
        raise PermanentError(said)

    async def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            await self._session.close()

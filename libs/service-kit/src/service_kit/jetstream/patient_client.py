"""nats-py's client, but no word of the server ends it for good.

The original closes itself for ever on any error line but two ("stale connection", "permissions violation"): a client
that read too slowly once, an expired credential or a restart with other users would cut an agent off for the rest of
its training run.
"""

from __future__ import annotations

from nats.aio.client import Client
from nats.errors import AuthorizationError
from nats.errors import Error as NatsError

_NAMES_KNOWN_MAX = 256
"""Names of headers come again and again; a sender that makes up new ones must not fill the memory."""
_names: dict[bytes, str] = {}
_HANDLED_BY_ORIGINAL = ("stale connection", "permissions violation")


class PatientClient(Client):
    """Reconnects where the original would close. Credentials files are read anew for each attempt."""

    async def _process_err(self, err_msg: str) -> None:
        """The server said -ERR and hangs up: report it, then connect again."""
        text = err_msg.strip().strip("'")
        if any(known in text.lower() for known in _HANDLED_BY_ORIGINAL):
            await super()._process_err(err_msg)
            return
        error: NatsError = (
            AuthorizationError() if "authorization violation" in text.lower() else NatsError(f"nats: {text}")
        )
        self._err = error
        await self._error_cb(error)
        await self._process_op_err(error)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """As the original, which looks at every character of every name: a fifth of the cost of reading a message."""
        found: dict[str, str] = {}
        for line in raw.split(b"\r\n"):
            if not line:
                continue
            name, _, value = line.partition(b":")
            known = _names.get(name)
            if known is None:
                parsed = Client._parse_header_lines(raw)
                if len(_names) + len(parsed) <= _NAMES_KNOWN_MAX:
                    _names.update((each.encode(), each) for each in parsed)
                return parsed
            found[known] = value.strip().decode("utf-8", "replace")
        return found

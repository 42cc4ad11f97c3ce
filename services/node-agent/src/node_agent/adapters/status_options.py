"""Where the status API listens and who may ask it, as values; the flags for it are in status_flags."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

TOKEN_VARIABLE = "PHALANX_STATUS_TOKEN"  # noqa: S105  a name
TOKEN_FILE_VARIABLE = "PHALANX_STATUS_TOKEN_FILE"  # noqa: S105  a name
TOKEN_LENGTH_MIN = 16
"""Too long to be guessed over the network at the API's own rate limit."""
TOKEN_BYTES_MAX = 4_096
OFF = "none"


class BadToken(ValueError):
    """The token cannot be used; the message says why and where it came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusToken:
    """A secret that is compared in constant time and never printed."""

    secret: bytes

    def __repr__(self) -> str:
        return "StatusToken(...)"

    def admits(self, authorization: bytes) -> bool:
        """Whether an Authorization header carries it."""
        scheme, _, given = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self.secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOptions:
    """What was asked for.

    Attributes:
        socket: path of the Unix socket; empty: `status.sock` in the agent's folder; `none`: no socket.
        port: TCP port, 0 for one that the system chooses; None: no TCP.
        host: address of the TCP port.
        token: from PHALANX_STATUS_TOKEN; empty when it is not set.
        token_file: from PHALANX_STATUS_TOKEN_FILE.
    """

    socket: str = ""
    port: int | None = None
    host: str = "127.0.0.1"
    token: str = ""
    token_file: str = ""

    def read_token(self) -> StatusToken | None:
        """The token, or None when there is none.

        Raises:
            BadToken: it cannot be read, or would be guessed.
        """
        text, source = self.token, TOKEN_VARIABLE
        if self.token_file:
            source = f"{TOKEN_FILE_VARIABLE}={self.token_file}"
            try:
                with open(self.token_file, encoding="ascii") as file:
                    text = file.read(TOKEN_BYTES_MAX)
            except (OSError, UnicodeDecodeError) as error:
                raise BadToken(f"{source}: cannot be read: {error}") from error
        elif not text:
            return None
        text = text.strip()
        if len(text) < TOKEN_LENGTH_MIN or not (text.isascii() and text.isprintable()):
            raise BadToken(f"{source}: a token has at least {TOKEN_LENGTH_MIN} printable ASCII characters")
        return StatusToken(secret=text.encode())

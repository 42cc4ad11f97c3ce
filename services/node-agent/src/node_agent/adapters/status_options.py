"""Where the status API listens and who may ask it, as values; the flags for it are in status_flags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from service_kit.web.token import BearerToken, token_in_file, usable_token

TOKEN_VARIABLE = "PHALANX_STATUS_TOKEN"  # noqa: S105  a name
TOKEN_FILE_VARIABLE = "PHALANX_STATUS_TOKEN_FILE"  # noqa: S105  a name
OFF = "none"


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

    def read_token(self) -> BearerToken | None:
        """The token, or None when there is none.

        Raises:
            BadToken: it cannot be read, or would be guessed.
        """
        if self.token_file:
            return token_in_file(Path(self.token_file), TOKEN_FILE_VARIABLE)
        return usable_token(self.token, TOKEN_VARIABLE) if self.token else None

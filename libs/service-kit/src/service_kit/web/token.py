"""The secret that an API asks for: compared in constant time, never printed, and never one that can be guessed."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path

TOKEN_LENGTH_MIN = 16
"""Too long to be guessed over the network at the guard's rate limit."""
TOKEN_BYTES_MAX = 4_096


class BadToken(ValueError):
    """The token cannot be used; the message says why and where it came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """One secret."""

    secret: bytes

    def __repr__(self) -> str:
        return "BearerToken(...)"

    def admits(self, authorization: bytes) -> bool:
        """Whether an Authorization header carries it."""
        scheme, _, given = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self.secret)


def token_in_file(path: Path, source: str) -> BearerToken:
    """The token that a file holds.

    Raises:
        BadToken: it cannot be read, or would be guessed; `source` says which setting named the file.
    """
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(TOKEN_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not ASCII"
        raise BadToken(f"{source}={path}: cannot be read: {reason}") from error
    return usable_token(text, f"{source}={path}")


def usable_token(text: str, source: str) -> BearerToken:
    """The token in a text.

    Raises:
        BadToken: it would be guessed; `source` says where it came from.
    """
    text = text.strip()
    if len(text) < TOKEN_LENGTH_MIN or not (text.isascii() and text.isprintable()):
        raise BadToken(f"{source}: a token has at least {TOKEN_LENGTH_MIN} printable ASCII characters")
    return BearerToken(secret=text.encode())

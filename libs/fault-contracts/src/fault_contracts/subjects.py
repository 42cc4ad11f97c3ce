"""The only place where a subject is spelled or parsed: `phx.<kind>.<context>.<name>.v<N>.<cluster>.<key>`.

Stable and broad to the left, ids to the right, so that one wildcard is one intent and a permission is a prefix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

ROOT = "phx"
_PLAIN = re.compile(rb"[a-z0-9_-]")
_TOKEN = re.compile(r"(?:[a-z0-9_-]|=[0-9a-f]{2})+")
TOKEN_BYTES_MAX = 256
_NAMES_CACHED = 16_384
"""The nodes and jobs of a large cluster come again and again; a few MB save a third of a message's cost."""


class Kind(StrEnum):
    """First word after the root."""

    EVT = "evt"
    CMD = "cmd"
    GO = "go"
    """A command as the stream accepted and republished it: agents listen here, never on `cmd`."""
    ASK = "ask"
    """Request and reply, core NATS, not stored."""
    DLQ = "dlq"


class SubjectError(ValueError):
    """A subject or token that this module did not spell."""


@lru_cache(maxsize=_NAMES_CACHED)
def encode_token(name: str) -> str:
    """A name as one subject token. Injective: lower case, digits, `-` and `_` stay, every other byte is `=hh`.

    Raises:
        SubjectError: empty, longer than 256 bytes, or no text (half of a surrogate pair, from a command line).
    """
    try:
        raw = name.encode()
    except UnicodeEncodeError as error:
        raise SubjectError(f"{name[:40]!r} is not UTF-8 text") from error
    if not raw or len(raw) > TOKEN_BYTES_MAX:
        raise SubjectError(f"{name[:40]!r} has {len(raw)} bytes; a subject token takes 1 to {TOKEN_BYTES_MAX}")
    return "".join(chr(b) if _PLAIN.match(bytes([b])) else f"={b:02x}" for b in raw)


@lru_cache(maxsize=_NAMES_CACHED)
def decode_token(token: str) -> str:
    """Inverse of `encode_token`.

    Raises:
        SubjectError: not a token that `encode_token` gives.
    """
    if not _TOKEN.fullmatch(token):
        raise SubjectError(f"{token[:80]!r} is not an encoded token")
    raw = bytearray()
    place = 0
    while place < len(token):
        if token[place] == "=":
            raw.append(int(token[place + 1 : place + 3], 16))
            place += 3
        else:
            raw.append(ord(token[place]))
            place += 1
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise SubjectError(f"{token[:80]!r} does not decode to UTF-8: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A parsed subject; `cluster` and `key` are decoded names."""

    kind: Kind
    context: str
    name: str
    version: int
    cluster: str
    key: str

    def __str__(self) -> str:
        return (
            f"{ROOT}.{self.kind}.{self.context}.{self.name}.v{self.version}"
            f".{encode_token(self.cluster)}.{encode_token(self.key)}"
        )


@lru_cache(maxsize=_NAMES_CACHED)
def parse_subject(text: str) -> Subject:
    """Parse seven tokens.

    Raises:
        SubjectError: another shape, an unknown kind, or a token that does not decode.
    """
    tokens = text.split(".")
    if len(tokens) != 7 or tokens[0] != ROOT:
        raise SubjectError(f"{text[:200]!r} is not phx.<kind>.<context>.<name>.v<N>.<cluster>.<key>")
    _, kind, context, name, version, cluster, key = tokens
    if kind not in set(Kind):
        raise SubjectError(f"{text[:200]!r}: unknown kind {kind!r}")
    if not re.fullmatch(r"v[1-9][0-9]{0,3}", version):
        raise SubjectError(f"{text[:200]!r}: version {version!r} is not v<N>")
    return Subject(
        kind=Kind(kind),
        context=context,
        name=name,
        version=int(version[1:]),
        cluster=decode_token(cluster),
        key=decode_token(key),
    )


def pattern(kind: Kind, context: str, name: str, version: int | None, cluster: str, key: str | None = None) -> str:
    """A subscription pattern; None is `*`."""
    shown = "*" if version is None else f"v{version}"
    last = "*" if key is None else encode_token(key)
    return f"{ROOT}.{kind}.{context}.{name}.{shown}.{encode_token(cluster)}.{last}"

"""Commands carry their sender's signature, and agents that know its public key obey no other.

The server's permissions already keep everybody but the planner from commanding. This is the second wall: whoever got
past the first one (a wrong configuration, a trick with reply subjects, a key of the server's operator) has not the
planner's key. The signature covers subject and body, so that it counts for this job and this command alone; that a
command is not older than what was obeyed, and has not expired, is the fence's business.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from fault_contracts.permissions import Role, signers_of
from fault_contracts.registry import spec_of_type
from fault_contracts.subjects import ROOT, Kind, SubjectError, parse_subject
from service_kit.errors import PermanentError
from service_kit.logging import get_logger
from service_kit.nkey import BadKey, UserKey, check_public, is_signed_by

HEADER = "Phalanx-Signature"
"""`<public key> <signature in base64>`."""
KEYS_BYTES_MAX = 64 * 1024
"""A few lines: the planner's and the cli's keys, two of each during a rotation."""
_DOMAIN = b"phalanx command 1\n"
_HEARD, _SAID = f"{ROOT}.{Kind.GO}.", f"{ROOT}.{Kind.CMD}."

log = get_logger(__name__)


class ForgedCommand(PermanentError):
    """A command that nobody signed who may give it."""


def signature(key: UserKey, subject: str, body: bytes) -> str:
    """The value of the header."""
    return f"{key.public} {base64.b64encode(key.sign(_text(subject, body))).decode()}"


class CommandKeys:
    """Whose commands are obeyed: `command-keys` of `phalanx security`; read anew when an unknown key turns up."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            PermanentError: it is not there or not understood.
        """
        self._path = path
        self._read_at: tuple[int, int] = (0, 0)
        self._keys: dict[str, Role] = {}
        try:
            self._read()
        except (OSError, ValueError) as error:
            raise PermanentError(f"PHALANX_COMMAND_KEYS {path}: {error}") from error

    def check(self, subject: str, headers: Mapping[str, str] | None, body: bytes) -> None:
        """Return when the command was signed by somebody who may give it.

        Raises:
            ForgedCommand: it was not.
        """
        public, _, encoded = (headers or {}).get(HEADER, "").partition(" ")
        if not public:
            raise ForgedCommand(f"{subject[:200]}: nobody signed it, and PHALANX_COMMAND_KEYS demands that")
        role = self._keys.get(public) or self._looked_up(public)
        if role is None:
            raise ForgedCommand(f"{subject[:200]}: signed by {public[:56]}, who is not in {self._path}")
        if role not in _may_sign(_command(subject)):
            raise ForgedCommand(f"{subject[:200]}: signed by {role}, who may not give it")
        try:
            signed = is_signed_by(public, base64.b64decode(encoded, validate=True), _text(subject, body))
        except (binascii.Error, BadKey):
            signed = False
        if not signed:
            raise ForgedCommand(f"{subject[:200]}: the signature of {role} is not for this command")

    def _looked_up(self, public: str) -> Role | None:
        """In the file as it is now: a rotation may have brought the key. An unchanged file is not read again."""
        try:
            self._read()
        except (OSError, ValueError) as error:
            log.warning("command_keys_not_read", path=str(self._path), error=str(error))
        return self._keys.get(public)

    def _read(self) -> None:
        status = self._path.stat()
        version = (status.st_mtime_ns, status.st_ino)
        if version == self._read_at:
            return
        with self._path.open(encoding="utf-8") as stream:
            self._keys = parse_command_keys(stream.read(KEYS_BYTES_MAX))
        self._read_at = version


def parse_command_keys(text: str) -> dict[str, Role]:
    """Public keys and whose they are.

    Raises:
        ValueError: not the file, or without a key.
    """
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            role, _, public = line.partition(" ")
            found[check_public(public.strip())] = Role(role)
    if not found:
        raise ValueError("no key is in it")
    return found


def _command(subject: str) -> str:
    """A command's own subject, also where the stream republished it."""
    return _SAID + subject.removeprefix(_HEARD) if subject.startswith(_HEARD) else subject


def _text(subject: str, body: bytes) -> bytes:
    return b"".join((_DOMAIN, _command(subject).encode(), b"\n", body))


@lru_cache(maxsize=1_024)
def _may_sign(subject: str) -> tuple[Role, ...]:
    try:
        parsed = parse_subject(subject)
    except SubjectError:
        return ()
    spec = spec_of_type(f"{parsed.kind}.{parsed.context}.{parsed.name}.v{parsed.version}")
    return () if spec is None or spec.kind is not Kind.CMD else signers_of(spec)

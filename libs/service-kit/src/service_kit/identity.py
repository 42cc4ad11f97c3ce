"""Who a process is on the bus: a file with a name and a seed, as `phalanx security` writes it.

Read anew at each connection, so that a rotated key is used without a restart. The name gives the private reply
subjects, which the server permits to this identity alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fault_contracts.permissions import is_identity_name
from service_kit.errors import PermanentError
from service_kit.nkey import BadKey, UserKey, user_key

IDENTITY_BYTES_MAX = 4_096
"""A comment, a name and 58 letters; whatever is larger is another file."""
INBOX_ROOT = "_INBOX"
_NAME = "# phalanx identity "


class BadIdentity(PermanentError):
    """The file is not there or not usable; the text names the file, never its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A name (a subject token; empty: the file has none) and a pair of keys."""

    name: str
    key: UserKey = field(repr=False)

    @property
    def inbox_prefix(self) -> str:
        """First tokens of its reply subjects."""
        return inbox_prefix(self.name) if self.name else INBOX_ROOT


def inbox_prefix(name: str) -> str:
    """First tokens of the reply subjects of an identity."""
    return f"{INBOX_ROOT}.{name}"


def identity_text(identity: Identity) -> str:
    """The content of an identity file."""
    return f"{_NAME}{identity.name}\n{identity.key.seed}\n"


def parse_identity(text: str) -> Identity:
    """Read the content of an identity file; a plain NATS seed file is one without a name.

    Raises:
        ValueError: no seed, several, or an impossible name.
    """
    name = ""
    seeds = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith(_NAME):
            name = line.removeprefix(_NAME).strip()
        elif line and not line.startswith("#"):
            seeds.append(line)
    if len(seeds) != 1:
        raise ValueError(f"one seed is expected, {len(seeds)} are there")
    if name and not is_identity_name(name):
        raise ValueError("its name is no subject token")
    return Identity(name=name, key=user_key(seeds[0]))


def read_identity(path: Path) -> Identity:
    """The identity in a file.

    Raises:
        BadIdentity: missing, unreadable, or no identity.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(IDENTITY_BYTES_MAX + 1)
        if len(raw) > IDENTITY_BYTES_MAX:
            raise ValueError(f"more than {IDENTITY_BYTES_MAX} bytes")
        return parse_identity(raw.decode())
    except OSError as error:
        raise BadIdentity(f"NATS_NKEY_SEED_FILE {path}: {error.strerror or error}") from error
    except (BadKey, ValueError) as error:
        # from None: the text of a decoding error holds the bytes.
        problem = "not text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise BadIdentity(f"NATS_NKEY_SEED_FILE {path} is no identity: {problem}") from None

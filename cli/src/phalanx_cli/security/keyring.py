"""Which identities a cluster has, with their public keys; the record that everything else is generated from. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from fault_contracts.permissions import SERVICE_ROLES, Holder, Role
from fault_contracts.registry import MESSAGES
from fault_contracts.subjects import Kind
from service_kit.nkey import check_public

FORMAT = 1
KEYS_MAX = 2
"""Of one identity: the one in its file, and the one before it while a rotation is under way."""


class KeyringError(Exception):
    """The record cannot be read, or does not allow what is asked; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """One key of an identity; the server knows its public half only."""

    public: str
    made_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An identity. The newest key first: it is the one in the file."""

    holder: Holder
    keys: tuple[PublicKey, ...]

    @property
    def in_rotation(self) -> bool:
        """Whether an older key still works."""
        return len(self.keys) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyring:
    """The identities of one cluster, by name."""

    cluster: str
    entries: dict[str, Entry] = field(default_factory=dict)

    def with_key(self, holder: Holder, key: PublicKey) -> Keyring:
        """A new identity.

        Raises:
            KeyringError: it is there.
        """
        if holder.name in self.entries:
            raise KeyringError(f"{holder.name} has an identity already; `rotate --identity {holder.name}` renews it")
        return replace(self, entries={**self.entries, holder.name: Entry(holder=holder, keys=(key,))})

    def with_newer_key(self, name: str, key: PublicKey) -> Keyring:
        """A second key beside the one that works.

        Raises:
            KeyringError: no such identity, or its last rotation is not finished.
        """
        entry = self.entry(name)
        if len(entry.keys) >= KEYS_MAX:
            raise KeyringError(f"the rotation of {name} is not finished: `rotate --finish` first")
        return replace(self, entries={**self.entries, name: replace(entry, keys=(key, *entry.keys))})

    def without_older_keys(self) -> Keyring:
        """Every rotation finished: what is in the files works, and nothing else."""
        return replace(
            self, entries={name: replace(entry, keys=entry.keys[:1]) for name, entry in self.entries.items()}
        )

    def without(self, name: str) -> Keyring:
        """An identity less.

        Raises:
            KeyringError: no such identity, or one that the cluster cannot do without.
        """
        if self.entry(name).holder.role in SERVICE_ROLES:
            raise KeyringError(f"{name} is a service: rotate its key instead")
        return replace(self, entries={other: entry for other, entry in self.entries.items() if other != name})

    def entry(self, name: str) -> Entry:
        """The identity of a name.

        Raises:
            KeyringError: no such identity.
        """
        entry = self.entries.get(name)
        if entry is None:
            raise KeyringError(f"there is no identity {name!r}; there are: {', '.join(sorted(self.entries))[:2_000]}")
        return entry


def command_keys_text(ring: Keyring) -> str:
    """Whose signature on a command an agent accepts: a role and a public key a line."""
    roles = {Role(each) for spec in MESSAGES if spec.kind is Kind.CMD for each in (spec.sender, *spec.also_senders)}
    lines = [
        f"{entry.holder.role} {key.public}"
        for _, entry in sorted(ring.entries.items())
        if entry.holder.role in roles
        for key in entry.keys
    ]
    return "# Whose commands agents obey (PHALANX_COMMAND_KEYS). Public keys: no secret.\n" + "\n".join(lines) + "\n"


def keyring_text(ring: Keyring) -> str:
    """The record as JSON; it holds no secret."""
    identities = [
        {
            "role": str(entry.holder.role),
            "node": entry.holder.node,
            "job": entry.holder.job,
            "keys": [{"public": key.public, "made_at": key.made_at.isoformat()} for key in entry.keys],
        }
        for _, entry in sorted(ring.entries.items())
    ]
    return json.dumps({"format": FORMAT, "cluster": ring.cluster, "identities": identities}, indent=1) + "\n"


def parse_keyring(text: str) -> Keyring:
    """Read the record.

    Raises:
        KeyringError: not the record, or of another version.
    """
    try:
        raw: Any = json.loads(text)
        if raw["format"] != FORMAT:
            raise KeyringError(f"written by another version (format {raw['format']!r}, {FORMAT} is understood)")
        entries = {}
        for each in raw["identities"]:
            holder = Holder(role=Role(each["role"]), node=each["node"], job=each["job"])
            keys = tuple(
                PublicKey(public=check_public(key["public"]), made_at=datetime.fromisoformat(key["made_at"]))
                for key in each["keys"]
            )
            if not 1 <= len(keys) <= KEYS_MAX:
                raise KeyringError(f"{holder.name} has {len(keys)} keys; 1 or {KEYS_MAX} are possible")
            entries[holder.name] = Entry(holder=holder, keys=keys)
        return Keyring(cluster=str(raw["cluster"]), entries=entries)
    except (ValueError, KeyError, TypeError) as error:
        raise KeyringError(f"not the record of identities: {error}") from error

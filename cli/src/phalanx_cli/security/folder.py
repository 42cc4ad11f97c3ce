"""The folder of `phalanx security`: what lies where, with which mode, and how it changes.

    security.json       the record: identities and their public keys
    ca.crt  ca.key      the CA; the key belongs off the machine that serves
    server.crt  .key    of nats-server
    nats.conf           yours after init;  authorization.conf   generated
    command-keys        whose commands agents obey
    identities/*.nk     the seeds: one for each process, and nobody else's

Every file is replaced as a whole, and two commands at once wait for each other.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fault_contracts.permissions import SERVICE_ROLES, Holder, Role
from phalanx_cli.security.certificates import Pair, hosts_of, new_ca, new_server_certificate
from phalanx_cli.security.keyring import (
    Keyring,
    KeyringError,
    PublicKey,
    command_keys_text,
    keyring_text,
    parse_keyring,
)
from phalanx_cli.security.nats_conf import AUTHORIZATION_FILE, authorization_text, server_text
from service_kit.identity import Identity, identity_text
from service_kit.nkey import UserKey, new_user_key

SECRET, PUBLIC = 0o600, 0o644
RECORD_BYTES_MAX = 64 << 20
"""Two identities for each of 100,000 nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """Where the server listens and keeps its files, as it sees them itself (in its container, say)."""

    listen: str
    folder: str
    store: str


class SecurityFolder:
    """One cluster's. Every method that changes writes the record before what follows from it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identities = path / "identities"

    def ring(self) -> Keyring:
        """The record.

        Raises:
            KeyringError: there is none, or it cannot be read.
        """
        path = self.path / "security.json"
        try:
            with path.open(encoding="utf-8") as stream:
                return parse_keyring(stream.read(RECORD_BYTES_MAX))
        except FileNotFoundError as error:
            raise KeyringError(f"{self.path} holds no identities; `phalanx security init` makes them") from error
        except (OSError, KeyringError) as error:
            raise KeyringError(f"{path}: {error}") from error

    def identity_path(self, name: str) -> Path:
        """Where the seed of an identity lies."""
        return self.identities / f"{name}.nk"

    def create(self, *, cluster: str, hosts: Sequence[str], place: ServerPlace, now: datetime) -> Keyring:
        """CA, certificate, configuration, and an identity for each service.

        Raises:
            KeyringError: the folder is in use; nothing of it is touched.
        """
        with self._alone():
            if (self.path / "security.json").exists():
                raise KeyringError(f"{self.path} holds identities already; `node` adds some, `rotate` renews them")
            ca = new_ca(cluster=cluster, now=now)
            self._write("ca.crt", ca.certificate, PUBLIC)
            self._write("ca.key", ca.key, SECRET)
            self._write_server(new_server_certificate(ca, hosts=hosts, now=now))
            text = server_text(listen=place.listen, folder=place.folder, store=place.store)
            self._write("nats.conf", text.encode(), PUBLIC)
            return self._add(Keyring(cluster=cluster), [Holder(role=role) for role in SERVICE_ROLES], now)

    def add(self, holders: Iterable[Holder], now: datetime) -> Keyring:
        """More identities: of nodes.

        Raises:
            KeyringError: one is there; none is added.
        """
        with self._alone():
            return self._add(self.ring(), holders, now)

    def remove(self, name: str) -> Keyring:
        """An identity less; its connections end with the server's next reload.

        Raises:
            KeyringError: it is not there, or a service's.
        """
        with self._alone():
            ring = self.ring().without(name)
            self._publish(ring)
            self.identity_path(name).unlink(missing_ok=True)
            return ring

    def generate(self) -> Keyring:
        """Write the generated files anew: after an upgrade, whose permissions may be others."""
        with self._alone():
            ring = self.ring()
            self._publish(ring)
            return ring

    def begin_rotation(self, names: Sequence[str], now: datetime) -> tuple[Keyring, dict[str, UserKey]]:
        """New keys beside the old ones, on the server's side. The seeds follow with `hand_out`.

        Raises:
            KeyringError: no such identity, or its last rotation is not finished; nothing is changed.
        """
        with self._alone():
            ring, keys = self.ring(), {}
            for name in names:
                keys[name] = new_user_key(secrets.token_bytes(32))
                ring = ring.with_newer_key(name, PublicKey(public=keys[name].public, made_at=now))
            # Handed out after the server knows them: a process that came back before that would be refused.
            for name, key in keys.items():
                self._write_seed(f"{name}.nk.next", name, key)
            self._publish(ring)
            return ring, keys

    def hand_out(self) -> list[str]:
        """Put the new seeds in the place of the old ones; returns whose."""
        with self._alone():
            done = []
            for path in sorted(self.identities.glob("*.nk.next")):
                path.replace(path.with_suffix(""))
                done.append(path.name.removesuffix(".nk.next"))
            return done

    def finish_rotation(self) -> list[str]:
        """Old keys and old CAs work no longer; returns the identities concerned.

        Raises:
            KeyringError: new seeds were not handed out.
        """
        with self._alone():
            if any(self.identities.glob("*.nk.next")):
                raise KeyringError("new seeds were made and not handed out: `rotate --hand-out` first")
            ring = self.ring()
            rotated = [name for name, entry in sorted(ring.entries.items()) if entry.in_rotation]
            self._publish(ring.without_older_keys())
            new_ca_path = self.path / "ca.next.crt"
            if new_ca_path.exists():
                self._write("ca.crt", new_ca_path.read_bytes(), PUBLIC)
                new_ca_path.unlink()
                rotated.append("ca.crt")
            return rotated

    def renew_server(self, now: datetime, hosts: Sequence[str] = ()) -> list[str]:
        """A new server certificate of the CA that is there; returns its names.

        Raises:
            KeyringError: the CA's key is not here.
        """
        with self._alone():
            names = list(hosts) or hosts_of((self.path / "server.crt").read_bytes())
            self._write_server(new_server_certificate(self._ca(), hosts=names, now=now))
            return names

    def renew_ca(self, now: datetime) -> None:
        """A new CA beside the old one: clients trust both (ca.crt) until the rotation is finished."""
        with self._alone():
            if (self.path / "ca.next.crt").exists():
                raise KeyringError("the rotation of the CA is not finished: `rotate --finish` first")
            ca = new_ca(cluster=self.ring().cluster, now=now)
            old = (self.path / "ca.crt").read_bytes()
            self._write("ca.next.crt", ca.certificate, PUBLIC)
            self._write("ca.crt", ca.certificate + old, PUBLIC)
            self._write("ca.key", ca.key, SECRET)

    def _ca(self) -> Pair:
        try:
            key = (self.path / "ca.key").read_bytes()
        except OSError as error:
            raise KeyringError(f"{self.path / 'ca.key'}: {error.strerror}; bring it here to sign") from error
        return Pair(certificate=(self.path / "ca.crt").read_bytes(), key=key)

    def _add(self, ring: Keyring, holders: Iterable[Holder], now: datetime) -> Keyring:
        keys: dict[str, UserKey] = {}
        for holder in holders:
            keys[holder.name] = new_user_key(secrets.token_bytes(32))
            ring = ring.with_key(holder, PublicKey(public=keys[holder.name].public, made_at=now))
        for name, key in keys.items():
            self._write_seed(f"{name}.nk", name, key)
        self._publish(ring)
        return ring

    def _publish(self, ring: Keyring) -> None:
        self._write("security.json", keyring_text(ring).encode(), PUBLIC)
        self._write("command-keys", command_keys_text(ring).encode(), PUBLIC)
        self._write(AUTHORIZATION_FILE, authorization_text(ring).encode(), PUBLIC)

    def _write_server(self, pair: Pair) -> None:
        self._write("server.key", pair.key, SECRET)
        self._write("server.crt", pair.certificate, PUBLIC)

    def _write_seed(self, file: str, name: str, key: UserKey) -> None:
        self._write(f"identities/{file}", identity_text(Identity(name=name, key=key)).encode(), SECRET)

    def _write(self, name: str, content: bytes, mode: int) -> None:
        path = self.path / name
        half = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        # The mode from the first moment: a file that is private a moment later was read in between.
        descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        half.replace(path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            self.identities.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            self.identities.chmod(0o700)
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, SECRET)
        except OSError as error:
            raise KeyringError(f"{self.path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def node_holders(node: str, *, job: str, roles: Sequence[Role]) -> list[Holder]:
    """The identities of a machine; empty: the one that machines share."""
    return [Holder(role=role, node=node, job=job if role is Role.LAUNCHER else "") for role in roles]

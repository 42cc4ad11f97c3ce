"""A folder of `phalanx security` as objects for Kubernetes: to each process its seed, under the names of the chart."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fault_contracts.permissions import Holder, Role
from phalanx_cli.security.folder import SecurityFolder
from phalanx_cli.security.keyring import KeyringError

IN_PODS = (Role.HEALTH_INGEST, Role.FAULT_CLASSIFIER, Role.RECOVERY_PLANNER, Role.OPERATOR)
"""Services of the chart; people's keys stay with people."""
OBJECT_BYTES_MAX = 1 << 20
"""What Kubernetes takes as the data of one Secret."""
TRUST, SERVER, IDENTITY, HOSTS, LAUNCHERS = (
    "phalanx-trust",
    "phalanx-nats-server",
    "phalanx-identity",
    "phalanx-hosts",
    "phalanx-launchers",
)
"""Names as in values.yaml of the chart."""


def objects_of_release(folder: SecurityFolder, namespace: str) -> list[dict[str, Any]]:
    """What services, host role and NATS mount.

    Raises:
        KeyringError: a file is missing, or there are more machines than one Secret holds.
    """
    trust = {name: _read(folder.path / name).decode() for name in ("ca.crt", "command-keys")}
    server = {name: _read(folder.path / name) for name in ("server.crt", "server.key", "authorization.conf")}
    found = [_config_map(TRUST, namespace, trust), _secret(SERVER, namespace, server)]
    for role in IN_PODS:
        seed = _read(folder.identity_path(Holder(role=role).name))
        found.append(_secret(f"{IDENTITY}-{role}", namespace, {"identity.nk": seed}))
    seeds = _seeds(folder, Role.HOST)
    if seeds:
        found.append(_secret(HOSTS, namespace, seeds))
    return found


def objects_of_jobs(folder: SecurityFolder, namespace: str) -> list[dict[str, Any]]:
    """What the launchers in a namespace of jobs mount.

    Raises:
        KeyringError: no machine has an identity for launchers.
    """
    seeds = _seeds(folder, Role.LAUNCHER)
    if not seeds:
        raise KeyringError(f"{folder.path} has no identity for launchers: `phalanx security node` makes them")
    public = {name: _read(folder.path / name) for name in ("ca.crt", "command-keys")}
    return [_secret(LAUNCHERS, namespace, {**public, **seeds})]


def _seeds(folder: SecurityFolder, role: Role) -> dict[str, bytes]:
    """By key: `host-NODE.nk` with Kubernetes' own name of the node; `host.nk` is the one that machines share."""
    holders = (entry.holder for entry in folder.ring().entries.values())
    return dict(_keyed(folder, (each for each in holders if each.role is role and not each.job)))


def _keyed(folder: SecurityFolder, holders: Iterable[Holder]) -> Iterator[tuple[str, bytes]]:
    for holder in sorted(holders, key=lambda each: each.node):
        seed = _read(folder.identity_path(holder.name))
        yield f"{holder.role}-{holder.node}.nk" if holder.node else f"{holder.role}.nk", seed


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeyringError(f"{path}: {error.strerror}") from error


def _config_map(name: str, namespace: str, data: Mapping[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(name, namespace), "data": dict(data)}


def _secret(name: str, namespace: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    size = sum(len(key) + len(value) for key, value in data.items())
    if size > OBJECT_BYTES_MAX:
        raise KeyringError(
            f"{name}: {len(data)} files of {size} bytes, and one Secret holds {OBJECT_BYTES_MAX}: "
            "put each machine's seed on the machine (host.identity.source: machine)"
        )
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _meta(name, namespace),
        "type": "Opaque",
        "data": encoded,
    }


def _meta(name: str, namespace: str) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "phalanx"}}

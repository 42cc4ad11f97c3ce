"""Signs in as each identity and looks: does it work, does the server hold it to its permissions, what ends when?

Harmless on a bus at work: it listens for a moment where the identity may, and where it must not. What may be published
cannot be tried without publishing; that the lists are right is the business of the tests.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from phalanx_cli.security.certificates import days_left, is_issued_by
from phalanx_cli.security.folder import SecurityFolder
from phalanx_cli.security.keyring import Entry, Keyring
from phalanx_cli.security.nats_conf import AUTHORIZATION_FILE, authorization_text
from service_kit.bus_access import access_of
from service_kit.errors import NoPermission, ServiceError
from service_kit.identity import inbox_prefix, read_identity
from service_kit.jetstream.connection import Connection, connect
from service_kit.settings import BusSettings

WARN_DAYS = 30.0
CONNECT_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report."""

    what: str
    ok: bool
    text: str


def check_files(folder: SecurityFolder, ring: Keyring, now: datetime) -> list[Finding]:
    """Certificates, modes, and whether the generated files are of this version."""
    found = [_certificate(folder.path / name, now) for name in ("ca.crt", "server.crt")]
    if all(each.ok for each in found):
        issued = is_issued_by((folder.path / "server.crt").read_bytes(), (folder.path / "ca.crt").read_bytes())
        text = "signed by ca.crt" if issued else "not signed by a CA in ca.crt: clients refuse it"
        found.append(Finding(what="server.crt", ok=issued, text=text))
    path = folder.path / AUTHORIZATION_FILE
    same = path.is_file() and path.read_text(encoding="utf-8") == authorization_text(ring)
    text = "as this version writes it" if same else "not as this version writes it: run `phalanx security generate`"
    found.append(Finding(what=AUTHORIZATION_FILE, ok=same, text=text))
    for secret in (*sorted(folder.identities.glob("*.nk*")), folder.path / "ca.key", folder.path / "server.key"):
        if secret.is_file() and stat.S_IMODE(secret.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            mode = stat.S_IMODE(secret.stat().st_mode)
            found.append(Finding(what=secret.name, ok=False, text=f"mode {mode:04o}: others here can read it"))
    if (folder.path / "ca.key").is_file():
        found.append(
            Finding(what="ca.key", ok=True, text="is here; only rotations need it, and whoever has it is the server")
        )
    for name, entry in sorted(ring.entries.items()):
        if entry.in_rotation:
            text = f"two keys work since {entry.keys[0].made_at:%Y-%m-%d}; `rotate --finish` ends the older one"
            found.append(Finding(what=name, ok=True, text=text))
    return found


async def check_identity(folder: SecurityFolder, ring: Keyring, entry: Entry, settings: BusSettings) -> Finding:
    """Sign in, and hold what the server permits against what it should."""
    name = entry.holder.name
    path = folder.identity_path(name)
    if not path.exists():
        return Finding(what=name, ok=True, text="its seed is not here: not tried")
    given = settings.model_copy(
        update={
            "nats_nkey_seed_file": path,
            "nats_nkey_seed": None,
            "nats_creds": None,
            "nats_tls_ca": folder.path / "ca.crt",
            "connect_limit_s": CONNECT_LIMIT_S,
        }
    )
    try:
        if read_identity(path).key.public not in {key.public for key in entry.keys}:
            return Finding(what=name, ok=False, text="the seed in its file is none of the record's keys")
        connection = await connect(given, name="phalanx-security")
    except ServiceError as error:
        return Finding(what=name, ok=False, text=str(error))
    try:
        missing = [
            subject
            for subject in access_of(entry.holder, ring.cluster).subscribe
            if not await _may_hear(connection, subject)
        ]
        if missing:
            text = f"signs in, but may not hear {', '.join(missing)[:500]}: reload the server (SIGHUP)"
            return Finding(what=name, ok=False, text=text)
        foreign = f"{inbox_prefix('somebody-else')}.>"
        if await _may_hear(connection, foreign):
            return Finding(what=name, ok=False, text=f"the server holds it to nothing: it may hear {foreign}")
    finally:
        await connection.close()
    return Finding(what=name, ok=True, text="signs in; may what it should, and does not hear others' replies")


async def _may_hear(connection: Connection, subject: str) -> bool:
    async def drop(_: object) -> None:
        return

    subscription = await connection.client.subscribe(subject, cb=drop)
    try:
        await connection.subscribed(subscription)
    except NoPermission:
        return False
    await subscription.unsubscribe()
    return True


def _certificate(path: Path, now: datetime) -> Finding:
    try:
        left = days_left(path.read_bytes(), now)
    except (OSError, ValueError) as error:
        return Finding(what=path.name, ok=False, text=f"cannot be read: {error}")
    text = f"{left:.0f} days left" if left > 0 else f"ended {-left:.0f} days ago"
    return Finding(what=path.name, ok=left > WARN_DAYS, text=text)

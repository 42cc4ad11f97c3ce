"""What `phalanx security` writes, and how keys change without a moment at which none works."""

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fault_contracts.permissions import SERVICE_ROLES, Holder, Role
from phalanx_cli.security.certificates import days_left, hosts_of, is_issued_by
from phalanx_cli.security.folder import SecurityFolder, ServerPlace, node_holders
from phalanx_cli.security.keyring import KeyringError, keyring_text, parse_keyring
from service_kit.identity import read_identity

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
PLACE = ServerPlace(listen="0.0.0.0:4222", folder="/etc/nats", store="/data")
BOTH = (Role.HOST, Role.LAUNCHER)


@pytest.fixture
def folder(tmp_path: Path) -> SecurityFolder:
    made = SecurityFolder(tmp_path / "certs")
    made.create(cluster="c1", hosts=["nats.example", "10.0.0.7"], place=PLACE, now=NOW)
    return made


def text(folder: SecurityFolder, name: str) -> str:
    return (folder.path / name).read_text()


def test_a_new_folder_has_an_identity_for_each_service_and_no_readable_secret(folder: SecurityFolder) -> None:
    assert set(folder.ring().entries) == {str(role) for role in SERVICE_ROLES}
    for name, entry in folder.ring().entries.items():
        identity = read_identity(folder.identity_path(name))
        assert (identity.name, identity.key.public) == (name, entry.keys[0].public)
    secrets = [*folder.identities.iterdir(), folder.path / "ca.key", folder.path / "server.key"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    public = [text(folder, name) for name in ("security.json", "authorization.conf", "command-keys", "nats.conf")]
    assert not any("SUA" in each or "PRIVATE" in each for each in public)
    assert 'cert_file: "/etc/nats/server.crt"' in text(folder, "nats.conf")


def test_the_certificate_is_the_cas_and_is_for_the_hosts(folder: SecurityFolder) -> None:
    certificate, ca = (folder.path / "server.crt").read_bytes(), (folder.path / "ca.crt").read_bytes()
    assert hosts_of(certificate) == ["nats.example", "10.0.0.7"]
    assert is_issued_by(certificate, ca)
    assert days_left(certificate, NOW) == pytest.approx(365)
    assert days_left(certificate, NOW + timedelta(days=366)) < 0


def test_a_folder_in_use_is_not_touched(folder: SecurityFolder) -> None:
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    with pytest.raises(KeyringError, match="holds identities already"):
        folder.create(cluster="c2", hosts=["x"], place=PLACE, now=NOW)
    folder.add([Holder(role=Role.HOST, node="n1")], NOW)
    with pytest.raises(KeyringError, match="already"):
        folder.add(node_holders("n1", job="", roles=BOTH), NOW)
    assert not folder.identity_path("launcher-n1").exists(), "none is added when one is there"
    assert all(path.read_bytes() == content for path, content in before.items() if path.suffix == ".nk")


def test_names_of_nodes_and_jobs_make_names_of_files(folder: SecurityFolder) -> None:
    names = [holder.name for holder in node_holders("Rack 1/../n", job="a.b", roles=BOTH)]
    folder.add(node_holders("Rack 1/../n", job="a.b", roles=BOTH), NOW)
    assert names == ["host-=52ack=201=2f=2e=2e=2fn", "launcher-=52ack=201=2f=2e=2e=2fn=job-a=2eb"]
    assert all(folder.identity_path(name).parent == folder.identities for name in names)
    assert read_identity(folder.identity_path(names[1])).name == names[1]


def test_a_rotation_has_no_moment_at_which_no_key_works(folder: SecurityFolder) -> None:
    old = read_identity(folder.identity_path("cli")).key.public
    folder.begin_rotation(["cli"], NOW)
    new = folder.ring().entry("cli").keys[0].public
    assert old != new
    assert all(key in text(folder, "authorization.conf") for key in (old, new)), "the server takes both"
    assert all(f"cli {key}" in text(folder, "command-keys") for key in (old, new)), "agents obey both"
    assert read_identity(folder.identity_path("cli")).key.public == old, "the server may not know the new one yet"
    with pytest.raises(KeyringError, match="--hand-out"):
        folder.finish_rotation()
    with pytest.raises(KeyringError, match="not finished"):
        folder.begin_rotation(["console", "cli"], NOW)
    assert not folder.ring().entry("console").in_rotation, "all or none"
    assert folder.hand_out() == ["cli"]
    assert read_identity(folder.identity_path("cli")).key.public == new
    assert folder.finish_rotation() == ["cli"]
    assert old not in text(folder, "authorization.conf") + text(folder, "command-keys")
    assert new in text(folder, "authorization.conf")


def test_a_ca_is_rotated_under_clients_that_trust_both(folder: SecurityFolder) -> None:
    old_certificate, old_ca = (folder.path / "server.crt").read_bytes(), (folder.path / "ca.crt").read_bytes()
    folder.renew_ca(NOW)
    both = (folder.path / "ca.crt").read_bytes()
    folder.renew_server(NOW)
    new_certificate = (folder.path / "server.crt").read_bytes()
    assert is_issued_by(old_certificate, both)
    assert is_issued_by(new_certificate, both)
    assert not is_issued_by(new_certificate, old_ca)
    assert folder.finish_rotation() == ["ca.crt"]
    assert not is_issued_by(old_certificate, (folder.path / "ca.crt").read_bytes())
    assert is_issued_by(new_certificate, (folder.path / "ca.crt").read_bytes())


def test_without_the_cas_key_nothing_is_signed_and_the_text_says_why(folder: SecurityFolder) -> None:
    (folder.path / "ca.key").unlink()
    with pytest.raises(KeyringError, match="bring it here to sign"):
        folder.renew_server(NOW)


def test_a_removed_node_is_in_no_list_and_a_service_cannot_be_removed(folder: SecurityFolder) -> None:
    folder.add([Holder(role=Role.HOST, node="n1")], NOW)
    public = folder.ring().entry("host-n1").keys[0].public
    folder.remove("host-n1")
    assert public not in text(folder, "authorization.conf")
    assert not folder.identity_path("host-n1").exists()
    with pytest.raises(KeyringError, match="rotate its key instead"):
        folder.remove("cli")
    with pytest.raises(KeyringError, match="there is no identity 'host-n1'"):
        folder.remove("host-n1")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"identities": [{"role": "king", "node": "", "job": "", "keys": []}]},
        {"identities": [{"role": "cli", "node": "", "job": "", "keys": []}]},
        {"identities": [{"role": "cli", "node": "", "job": "", "keys": [{"public": "U", "made_at": "2026-12-01"}]}]},
        {"identities": 7},
    ],
)
def test_a_damaged_record_is_refused(folder: SecurityFolder, change: dict[str, object]) -> None:
    raw = {**json.loads(keyring_text(folder.ring())), **change}
    with pytest.raises(KeyringError):
        parse_keyring(json.dumps(raw))

"""The file that says who a process is."""

from pathlib import Path

import pytest

from service_kit.errors import PermanentError
from service_kit.identity import BadIdentity, Identity, identity_text, parse_identity, read_identity
from service_kit.jetstream.client_options import client_options, who_we_are
from service_kit.nkey import new_user_key
from service_kit.settings import BusSettings

KEY = new_user_key(bytes(32))


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    identity = Identity(name="host-node=2e7", key=KEY)
    assert read_identity(write(tmp_path / "a.nk", identity_text(identity))) == identity
    assert identity.inbox_prefix == "_INBOX.host-node=2e7"
    assert KEY.seed not in repr(identity)


def test_a_plain_seed_file_has_no_name() -> None:
    assert parse_identity(f"\n{KEY.seed}\n") == Identity(name="", key=KEY)
    assert Identity(name="", key=KEY).inbox_prefix == "_INBOX"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# phalanx identity x\n",
        f"{KEY.seed}\n{KEY.seed}",
        f"# phalanx identity a.>\n{KEY.seed}",
        KEY.seed[:-1],
        "x" * 5_000,
    ],
)
def test_a_file_that_is_no_identity_is_named_but_not_shown(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "bad.nk", text)
    with pytest.raises(BadIdentity) as refused:
        read_identity(path)
    assert str(path) in str(refused.value)
    assert KEY.seed[:20] not in str(refused.value)


def test_a_missing_file_and_bytes_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadIdentity, match="No such file"):
        read_identity(tmp_path / "none.nk")
    (tmp_path / "bytes.nk").write_bytes(b"\xff" + KEY.seed.encode())
    with pytest.raises(BadIdentity, match="not text"):
        read_identity(tmp_path / "bytes.nk")


def test_the_name_gives_the_inbox_unless_one_is_set(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nk", identity_text(Identity(name="cli", key=KEY)))
    settings = BusSettings(nats_nkey_seed_file=path)
    options = client_options(settings, name="x", identity=who_we_are(settings))
    assert options["inbox_prefix"] == "_INBOX.cli"
    chosen = settings.model_copy(update={"inbox_prefix": "_INBOX.mine"})
    assert client_options(chosen, name="x", identity=who_we_are(chosen))["inbox_prefix"] == "_INBOX.mine"


def test_one_identity_is_enough(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one identity is enough"):
        BusSettings(nats_nkey_seed_file=tmp_path / "a", nats_creds=tmp_path / "b")


def test_a_bad_seed_or_ca_is_permanent(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="NATS_NKEY_SEED is not"):
        who_we_are(BusSettings(nats_nkey_seed="SUNOTHING"))
    with pytest.raises(PermanentError, match="NATS_TLS_CA"):
        client_options(BusSettings(nats_tls_ca=tmp_path / "none.crt"), name="x")

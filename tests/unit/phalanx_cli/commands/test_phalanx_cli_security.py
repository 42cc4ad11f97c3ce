"""`phalanx security` as a person uses it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx_cli.commands.app import app


def phalanx(*words: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["security", *words])
    return ran.exit_code, ran.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("NATS_URL", raising=False)
    path = str(tmp_path / "certs")
    code, said = phalanx("init", path, "--host", "nats.example", "--node", "n1")
    assert code == 0
    assert all(word in said for word in ("host-n1", "launcher-n1", "nats-server -c", "ca.key"))
    return path


def test_a_second_init_is_refused_and_a_node_is_added_and_removed(folder: str) -> None:
    code, said = phalanx("init", folder)
    assert (code, "holds identities already" in said) == (1, True)
    code, said = phalanx("node", folder, "n2", "--job", "llm")
    assert code == 0
    assert "launcher-n2=job-llm" in said
    assert "SIGHUP" in said, "who forgets the reload wonders why nobody comes in"
    assert phalanx("node", folder, "n2")[0] == 1, "the host's is there already"
    assert phalanx("node", folder, "n2", "--role", "host", "--remove")[0] == 0
    assert phalanx("node", folder, "n2", "--role", "host", "--remove")[0] == 1
    assert phalanx("node", folder, "--every-node")[0] == 0


@pytest.mark.parametrize(
    "words",
    [["node"], ["node", "n1", "--every-node"], ["node", "n1", "--role", "king"], ["rotate", "--ca", "--server"]],
)
def test_a_wrong_word_is_a_usage_error(folder: str, words: list[str]) -> None:
    assert phalanx(words[0], folder, *words[1:])[0] == 2


def test_a_rotation_goes_in_three_steps_and_check_knows_where_it_stands(folder: str) -> None:
    assert phalanx("check", folder)[0] == 0
    assert phalanx("rotate", folder, "--identity", "cli")[0] == 0
    code, said = phalanx("check", folder, "--json")
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert code == 0
    assert ["two keys work" in each["text"] for each in lines if each["what"] == "cli"] == [True]
    assert phalanx("rotate", folder, "--finish")[0] == 1, "the new seed was not handed out"
    assert phalanx("rotate", folder, "--hand-out")[0] == 0
    assert phalanx("rotate", folder, "--finish")[0] == 0
    assert phalanx("rotate", folder, "--identity", "nobody")[0] == 1


def test_check_finds_an_open_secret_an_old_list_and_a_foreign_certificate(folder: str, tmp_path: Path) -> None:
    (Path(folder) / "identities" / "cli.nk").chmod(0o644)
    (Path(folder) / "authorization.conf").write_text("authorization { }\n")
    phalanx("init", str(tmp_path / "other"))
    (Path(folder) / "ca.crt").write_bytes((tmp_path / "other" / "ca.crt").read_bytes())
    code, said = phalanx("check", folder)
    assert code == 1
    assert "mode 0644" in said
    assert "run `phalanx security generate`" in said
    assert "not signed by a CA in ca.crt" in said
    assert phalanx("generate", folder)[0] == 0
    assert "as this version writes it" in phalanx("check", folder)[1]


def test_a_folder_without_identities_is_said(tmp_path: Path) -> None:
    code, said = phalanx("check", str(tmp_path))
    assert (code, "`phalanx security init` makes them" in said) == (1, True)

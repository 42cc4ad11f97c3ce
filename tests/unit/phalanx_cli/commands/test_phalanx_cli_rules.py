"""`phalanx rules`: sound or not, do tests hold, and what a rule says; exit codes mean something."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx_cli.commands import rules as command
from phalanx_cli.commands.app import app

RUN = CliRunner()
SIGNATURE = """signatures:
  - id: site.fan
    find: site_fan_{n}
    role: cause
    pattern: 'fan tray (?P<n>\\d+) is dead'
    meaning: A fan tray is dead.
    source: our chassis
    tests: {match: ['fan tray 3 is dead'], miss: ['fan tray 3 is fine']}
"""
CAUSE = """causes:
  - id: hardware.fan
    attribution: hardware
    cause: fan_dead
    action: replace_node
    when: [{see: 'site_fan_*', score: 6, say: 'tray {n}'}]
    less: [{see: 'job_failed', score: 1}]
    meaning: A fan tray is dead.
    advice: Replace it.
    decide: A look.
    near_miss: A slow fan.
    source: our chassis
    holds: [{lines: ['kmsg n1 | fan tray 3 is dead'], action: replace_node}]
    misses: [{lines: ['kmsg n1 | fan tray 3 is fine']}]
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site's folder over nothing: the shipped rules take a second to read."""
    from fault_attribution.loading import rule_files

    for name, text in (("signatures", SIGNATURE), ("causes", CAUSE)):
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "site.yaml").write_text(text)
    (tmp_path / "shipped").mkdir()
    monkeypatch.setattr(rule_files, "shipped_folder", lambda: tmp_path / "shipped")
    monkeypatch.delenv("PHALANX_RULES", raising=False)
    return tmp_path / "site"


def change(site: Path, name: str, old: str, new: str) -> None:
    file = site / name / "site.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_sound_rules(site: Path) -> None:
    done = RUN.invoke(app, ["rules", "lint", str(site)])
    assert (done.exit_code, done.output) == (0, "sound: 1 signatures, 1 cause rules\n")
    done = RUN.invoke(app, ["rules", "test", str(site)])
    assert (done.exit_code, done.output) == (0, "4 tests hold\n")


def test_the_environment_names_folders_too(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_RULES", f"{site}:")
    assert "1 signatures" in RUN.invoke(app, ["rules", "lint"]).output


def test_a_mistake_is_told_with_its_place(site: Path) -> None:
    change(site, "causes", "site_fan_*", "sitefan")
    done = RUN.invoke(app, ["rules", "lint", str(site)])
    assert done.exit_code == command.EXIT_BAD
    assert "causes/site.yaml:2: hardware.fan: 'sitefan': nothing finds the kind sitefan" in done.output


def test_a_failed_test_is_told_with_its_place(site: Path) -> None:
    change(site, "signatures", "fan tray 3 is fine", "fan tray 3 is dead")
    done = RUN.invoke(app, ["rules", "test", str(site)])
    assert done.exit_code == command.EXIT_TEST_FAILED
    assert "signatures/site.yaml:2: site.fan: matches 'fan tray 3 is dead', which it must not" in done.output


@pytest.mark.parametrize("verb", ["lint", "test", "list"])
def test_what_cannot_be_read_is_refused(site: Path, verb: str) -> None:
    change(site, "signatures", "role: cause", "role: guilty")
    arguments = ["--rules", str(site)] if verb == "list" else [str(site)]
    done = RUN.invoke(app, ["rules", verb, *arguments])
    assert done.exit_code == command.EXIT_BAD
    assert "signatures/site.yaml:4: role is 'guilty'" in done.output


def test_tests_with_a_pattern_that_cannot_run_are_refused(site: Path) -> None:
    change(site, "signatures", "is dead'\n    meaning", "is (?=dead)'\n    meaning")
    done = RUN.invoke(app, ["rules", "test", str(site)])
    assert done.exit_code == command.EXIT_BAD
    assert "signatures/site.yaml:2: site.fan: the pattern is not accepted" in done.output


def test_rules_kinds_and_causes_are_explained(site: Path) -> None:
    over = ["--rules", str(site)]
    signature = RUN.invoke(app, ["rules", "explain", "site.fan", *over]).output
    assert "fan tray (?P<n>\\d+) is dead" in signature
    assert "used by      hardware.fan" in signature
    by_cause = RUN.invoke(app, ["rules", "explain", "fan_dead", *over]).output
    assert by_cause == RUN.invoke(app, ["rules", "explain", "hardware.fan", *over]).output
    assert "    when  +6     site_fan_*\n                 tray {n}\n    less  -1     job_failed\n" in by_cause
    kind = RUN.invoke(app, ["rules", "explain", "site_fan_3", *over]).output
    assert "found by     site.fan: A fan tray is dead." in kind
    assert "hardware.fan" in kind
    derived = RUN.invoke(app, ["rules", "explain", "job_failed", *over]).output
    assert "derived      anybody failed" in derived
    unknown = RUN.invoke(app, ["rules", "explain", "nonsense", *over])
    assert unknown.exit_code == command.EXIT_BAD


def test_all_rules_are_listed(site: Path) -> None:
    lines = RUN.invoke(app, ["rules", "list", "--rules", str(site)]).output.splitlines()
    assert [line.split()[0] for line in lines] == ["site.fan", "hardware.fan"]

"""The audit finds a licence that is not allowed and a version that is known to be bad, and says when it cannot look."""

import importlib.util
import json
import sys
import urllib.error
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[3] / "tools" / "audit.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["audit_tool"] = module
    spec.loader.exec_module(module)
    return module


AUDIT = load()


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("Apache-2.0 AND GPL-3.0-only", False),
        ("MIT AND (Apache-2.0 OR BSD-2-Clause)", True),
        ("MIT AND (Apache-2.0 OR GPL-2.0-only)", False),
        ("GPL-3.0-or-later", False),
        ("Proprietary", False),
        ("", False),
    ],
)
def test_expressions(expression: str, allowed: bool) -> None:
    assert AUDIT.allows(expression) is allowed


def test_everything_installed_here_has_an_allowed_licence() -> None:
    rows = list(AUDIT.licence_rows())
    assert {"nats-py", "pydantic", "structlog"} <= {name for name, _, _ in rows}
    assert AUDIT.audit_licences(rows) == []


def test_a_bad_licence_is_named() -> None:
    [line] = AUDIT.audit_licences([("good", "1", "MIT"), ("evil", "2", "AGPL-3.0-only")])
    assert line.startswith("evil 2: AGPL-3.0-only is not on the allow-list")


def osv_zip(path: Path, *records: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for record in records:
            archive.writestr(f"{record['id']}.json", json.dumps(record))
    return path


def record(
    name: str, *, versions: list[str] | None = None, events: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    affected: dict[str, Any] = {"package": {"name": name, "ecosystem": "PyPI"}}
    if versions is not None:
        affected["versions"] = versions
    if events is not None:
        affected["ranges"] = [{"type": "ECOSYSTEM", "events": events}]
    return {"id": f"PYSEC-{name}", "affected": [affected]}


@pytest.mark.parametrize(
    ("known", "hit"),
    [
        (record("PyYAML", versions=["5.3", "6.0.4"]), True),
        (record("PyYAML", versions=["5.3"]), False),
        (record("pyyaml", events=[{"introduced": "0"}, {"fixed": "6.0.10"}]), True),
        (record("pyyaml", events=[{"introduced": "0"}, {"fixed": "6.0.4"}]), False),
        (record("pyyaml", events=[{"introduced": "6.0.5"}]), False),
        (record("pyyaml", events=[{"introduced": "1"}, {"last_affected": "6.0.4"}]), True),
        (record("other", events=[{"introduced": "0"}]), False),
        ({**record("pyyaml", versions=["6.0.4"]), "withdrawn": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_a_file_of_records_is_looked_up(tmp_path: Path, known: dict[str, Any], hit: bool) -> None:
    found = AUDIT.look_up({"pyyaml": "6.0.4"}, osv_zip(tmp_path / "all.zip", known))
    assert found == ([f"pyyaml 6.0.4: {known['id']}"] if hit else [])


def test_no_answer_is_no_success(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(AUDIT.urllib.request, "urlopen", unreachable)
    assert AUDIT.main([]) == AUDIT.EXIT_NOT_LOOKED
    assert "NOT LOOKED UP" in capsys.readouterr().out
    assert AUDIT.main(["--licences-only"]) == 0


def test_a_file_that_is_none_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "all.zip").write_text("no zip")
    assert AUDIT.main(["--osv", str(tmp_path / "all.zip")]) == AUDIT.EXIT_NOT_LOOKED


def test_all_of_the_lock_is_looked_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packages = AUDIT.locked()
    assert len(packages) > 50
    assert "phalanx-cli" not in packages, "our own"
    bad = record("pyyaml", versions=[packages["pyyaml"]])
    assert AUDIT.main(["--osv", str(osv_zip(tmp_path / "all.zip", bad))]) == AUDIT.EXIT_FOUND
    assert f"pyyaml {packages['pyyaml']}: PYSEC-pyyaml" in capsys.readouterr().out

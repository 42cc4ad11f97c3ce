"""Secrets for the chart: each process its own seed, under the names and keys that the chart mounts."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from fault_contracts.permissions import Role
from phalanx_cli.commands.app import app
from phalanx_cli.security import kubernetes_objects
from phalanx_cli.security.folder import SecurityFolder, ServerPlace, node_holders
from phalanx_cli.security.keyring import KeyringError
from phalanx_cli.security.kubernetes_objects import objects_of_jobs, objects_of_release

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
NODE = "ip-10-0-0-1.ec2.internal"
CHART_RENDERED = Path(__file__).resolve().parents[4] / "deploy" / "kubernetes" / "ha" / "phalanx.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> SecurityFolder:
    made = SecurityFolder(tmp_path / "certs")
    place = ServerPlace(listen="0.0.0.0:4222", folder="/etc/nats", store="/data")
    made.create(cluster="c1", hosts=["nats.example"], place=place, now=NOW)
    made.add(node_holders(NODE, job="", roles=(Role.HOST, Role.LAUNCHER)), NOW)
    made.add(node_holders(NODE, job="j1", roles=(Role.LAUNCHER,)), NOW)
    return made


def data_of(found: list[dict[str, Any]], name: str) -> dict[str, str]:
    body = next(each for each in found if each["metadata"]["name"] == name)
    if body["kind"] == "ConfigMap":
        return dict(body["data"])
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


def test_each_gets_its_own_seed_and_nobody_the_key_of_the_ca(folder: SecurityFolder) -> None:
    found = objects_of_release(folder, "phalanx-system")
    assert {each["metadata"]["namespace"] for each in found} == {"phalanx-system"}
    planner = data_of(found, "phalanx-identity-recovery-planner")
    assert planner == {"identity.nk": folder.identity_path("recovery-planner").read_text()}
    hosts = data_of(found, "phalanx-hosts")
    assert list(hosts) == [f"host-{NODE}.nk"], "by Kubernetes' name of the node, which is a key that a Secret may have"
    everything = json.dumps([data_of(found, each["metadata"]["name"]) for each in found])
    assert json.dumps((folder.path / "ca.key").read_text())[1:-1] not in everything
    for private in ("cli", "console", "launcher-ip-10-0-0-1=2eec2=2einternal"):
        assert json.dumps(folder.identity_path(private).read_text())[1:-1] not in everything


def test_a_namespace_of_jobs_gets_launchers_only(folder: SecurityFolder) -> None:
    data = data_of(objects_of_jobs(folder, "team-a"), "phalanx-launchers")
    assert set(data) == {"ca.crt", "command-keys", f"launcher-{NODE}.nk"}


def test_machines_that_share_an_identity(folder: SecurityFolder) -> None:
    folder.add(node_holders("", job="", roles=(Role.HOST,)), NOW)
    assert set(data_of(objects_of_release(folder, "p"), "phalanx-hosts")) == {"host.nk", f"host-{NODE}.nk"}


def mounted() -> Iterator[tuple[str, set[str]]]:
    """Name of every ConfigMap and Secret that the chart mounts and does not make, with the keys that it names."""
    bodies = [each for each in yaml.safe_load_all(CHART_RENDERED.read_text(encoding="utf-8")) if each]
    made = {each["metadata"]["name"] for each in bodies if each["kind"] == "ConfigMap"}
    for body in bodies:
        pod = body.get("spec", {}).get("template", {}).get("spec", {})
        for volume in pod.get("volumes", []):
            for source in volume.get("projected", {}).get("sources", [volume]):
                for kind, name in (("configMap", "name"), ("secret", "secretName")):
                    if kind in source:
                        found = source[kind].get(name) or source[kind]["name"]
                        if found not in made:
                            yield found, {item["key"] for item in source[kind].get("items", [])}


def test_whatever_the_chart_mounts_is_there(folder: SecurityFolder) -> None:
    found = objects_of_release(folder, "phalanx-system")
    wanted = dict(mounted())
    assert set(wanted) == {each["metadata"]["name"] for each in found}
    for name, keys in mounted():
        assert keys <= set(data_of(found, name)), name


def test_more_machines_than_a_secret_holds_are_refused(folder: SecurityFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_objects, "OBJECT_BYTES_MAX", 64)
    with pytest.raises(KeyringError, match="one Secret holds 64"):
        objects_of_jobs(folder, "team-a")


def test_the_command_writes_a_list_or_says_what_is_missing(folder: SecurityFolder, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["security", "kubernetes", str(folder.path), "--namespace", "here"])
    assert done.exit_code == 0
    assert {each["metadata"]["namespace"] for each in json.loads(done.stdout)["items"]} == {"here"}
    assert CliRunner().invoke(app, ["security", "kubernetes", str(tmp_path / "none")]).exit_code == 1
    (folder.path / "server.key").unlink()
    done = CliRunner().invoke(app, ["security", "kubernetes", str(folder.path)])
    assert done.exit_code == 1
    assert "server.key" in done.stderr

"""The chart and what it renders: described, documented, restricted; and deploy/kubernetes is what the chart makes.

Nothing here needs Helm; `make manifests` renders and validates.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy" / "helm" / "phalanx"
RENDERED = ROOT / "deploy" / "kubernetes"
NAMES = ("default", "ha")
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
MAY_SPEAK_TO_KUBERNETES = {"operator"}
every_rendering = pytest.mark.parametrize("name", NAMES)


@cache
def rendered(name: str) -> tuple[dict[str, Any], ...]:
    text = (RENDERED / name / "phalanx.yaml").read_text(encoding="utf-8")
    return tuple(each for each in yaml.safe_load_all(text) if each)


def of_kind(name: str, *kinds: str) -> list[dict[str, Any]]:
    return [each for each in rendered(name) if each["kind"] in kinds]


def component(body: dict[str, Any]) -> str:
    return str(body["metadata"]["labels"]["app.kubernetes.io/component"])


def pods(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for body in of_kind(name, *WORKLOADS):
        yield component(body), body["spec"]["template"]["spec"]


# ------------------------------------------------------------------------------------------------------- sources


@every_rendering
def test_what_is_kept_is_what_the_chart_renders(name: str) -> None:
    files = sorted(path for path in CHART.rglob("*") if path.is_file() and path.relative_to(CHART).parts[0] != "crds")
    lines = sorted((f"./{path.relative_to(CHART).as_posix()}", path.read_bytes()) for path in files)
    listing = "".join(f"{hashlib.sha256(content).hexdigest()}  {file}\n" for file, content in lines)
    head = (RENDERED / name / "phalanx.yaml").read_text(encoding="utf-8").partition("\n")[0]
    assert head.rpartition(" ")[2] == hashlib.sha256(listing.encode()).hexdigest(), "run: make manifests"


def schema_of(path: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    for key in path:
        found = found["properties"][key]
    return found


def leaves(values: Any, schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(values, dict) and "properties" in schema:
        for key, value in values.items():
            yield from leaves(value, schema["properties"].get(key, {}), (*path, key))


@pytest.mark.parametrize("file", ["values.yaml", "values-ha.yaml"])
def test_every_value_is_described_and_nothing_else_is_taken(file: str) -> None:
    values = yaml.safe_load((CHART / file).read_text(encoding="utf-8"))
    for path in leaves(values, schema_of(())):
        found = schema_of(path)
        assert len(found["description"]) > 5, path
        if "properties" in found:
            assert found["additionalProperties"] is False, path


def test_every_described_value_has_a_default() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    def missing(schema: dict[str, Any], there: Any, path: str) -> Iterator[str]:
        for key, inner in schema.get("properties", {}).items():
            if key == "global":
                continue
            if key not in there:
                yield f"{path}.{key}"
            else:
                yield from missing(inner, there[key], f"{path}.{key}")

    assert list(missing(schema_of(()), values, "")) == []


def test_images_are_those_that_compose_runs() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert values["nats"]["image"] == compose["nats"]["image"]
    assert values["valkey"]["image"] == compose["valkey"]["image"]
    version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
    assert f":-{version}}}" in compose["health-ingest"]["image"]


# ------------------------------------------------------------------------------------------------------ rendered


@every_rendering
def test_every_service_of_the_repository_runs(name: str) -> None:
    ours = {
        container["image"].partition("/")[2].partition(":")[0]
        for _, pod in pods(name)
        for container in pod["containers"]
        if container["image"].startswith("phalanx/")
    }
    assert ours == {path.parent.name for path in ROOT.glob("services/*/pyproject.toml")}


@every_rendering
def test_every_variable_is_a_setting_that_is_documented(name: str) -> None:
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([A-Z_]+)`", settings, flags=re.MULTILINE))
    used = {
        variable["name"]
        for _, pod in pods(name)
        for container in pod["containers"]
        if container["image"].startswith("phalanx/")
        for variable in container["env"]
        if not variable["name"].startswith("NVIDIA_")
    }
    assert used - documented == set()


@every_rendering
def test_everybody_but_the_host_role_is_restricted(name: str) -> None:
    for who, pod in pods(name):
        if who == "host":
            continue
        assert pod["securityContext"]["runAsNonRoot"] is True, who
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, who
        assert not [key for key in ("hostPID", "hostNetwork", "hostIPC") if pod.get(key)], who
        assert not [each for each in pod["volumes"] if "hostPath" in each], who
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}, who
            assert context["allowPrivilegeEscalation"] is False, who
            assert context["readOnlyRootFilesystem"] is True, who
            assert "privileged" not in context, who


@every_rendering
def test_the_host_role_writes_to_one_folder_of_the_machine(name: str) -> None:
    pod = dict(pods(name))["host"]
    of_machine = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    mounts = pod["containers"][0]["volumeMounts"]
    written = {of_machine[each["name"]] for each in mounts if each["name"] in of_machine and not each.get("readOnly")}
    assert written == {"/var/lib/phalanx"}
    assert not pod.get("hostNetwork")


@every_rendering
def test_everybody_has_limits_probes_a_priority_and_a_name_of_its_own(name: str) -> None:
    accounts = {each["metadata"]["name"]: each for each in of_kind(name, "ServiceAccount")}
    seen = []
    for who, pod in pods(name):
        seen.append(pod["serviceAccountName"])
        assert accounts[pod["serviceAccountName"]]["automountServiceAccountToken"] is False
        assert pod["automountServiceAccountToken"] is (who in MAY_SPEAK_TO_KUBERNETES)
        assert pod["priorityClassName"]
        for container in pod["containers"]:
            assert {"requests", "limits"} <= set(container["resources"]), who
            assert "memory" in container["resources"]["limits"], who
            assert "readinessProbe" in container, who
            assert "livenessProbe" in container, who
            assert re.search(r":\d+\.\d+", container["image"]), who
    assert len(seen) == len(set(seen))


@every_rendering
def test_no_secret_is_rendered_and_none_is_in_an_argument_or_variable(name: str) -> None:
    assert of_kind(name, "Secret") == []
    for who, pod in pods(name):
        for container in pod["containers"]:
            assert not [each for each in container.get("command", []) if "pass" in each.lower()], who
            for variable in container.get("env", []):
                assert "://" not in variable.get("value", "") or "@" not in variable["value"], who


@every_rendering
def test_policies_name_pods_and_ports_that_are_there(name: str) -> None:
    components = {who for who, _ in pods(name)}
    ports = {
        (who, port["containerPort"])
        for who, pod in pods(name)
        for container in pod["containers"]
        for port in container["ports"]
    }
    denied = [each for each in of_kind(name, "NetworkPolicy") if component(each) == "nobody"]
    assert denied[0]["spec"]["podSelector"]["matchLabels"].keys() == {
        "app.kubernetes.io/name",
        "app.kubernetes.io/instance",
    }
    assert "ingress" not in denied[0]["spec"]
    assert "egress" not in denied[0]["spec"]
    for policy in of_kind(name, "NetworkPolicy"):
        who = policy["spec"]["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/component")
        if who is None:
            continue
        assert who in components
        opened = {(who, port["port"]) for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}
        assert opened <= ports


def test_high_availability_survives_the_loss_of_one() -> None:
    for body in of_kind("ha", "Deployment", "StatefulSet"):
        if component(body) == "valkey":  # nothing true lives there
            continue
        assert body["spec"]["replicas"] >= (3 if component(body) == "nats" else 2)
    budgets = {component(each) for each in of_kind("ha", "PodDisruptionBudget")}
    assert budgets == {component(each) for each in of_kind("ha", "Deployment", "StatefulSet")} - {"valkey"}
    assert of_kind("default", "PodDisruptionBudget") == [], "of a single replica it would stop every drain"
    for _, pod in pods("ha"):
        for container in pod["containers"]:
            for variable in container.get("env", []):
                if variable["name"] == "PHALANX_STREAM_REPLICAS":
                    assert variable["value"] == "3"

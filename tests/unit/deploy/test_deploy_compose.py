"""docker-compose.yml keeps its promises: no root, versions, limits, health, loopback; and its files fit each other."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx_cli.demo.acts import NODES_BY_NAME
from phalanx_cli.demo.grow_again import LATE_NODE

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "docker-compose.yml"
OURS = "phalanx/"
ROOT_ALLOWED = {"host"}
"""The kernel log wants CAP_SYSLOG, which a container's other users cannot have."""
CAPABILITIES_ALLOWED = {"host": ["SYSLOG"]}
ONE_SHOTS = {"identities", "cli", "demo"}
PORT = re.compile(r"127\.0\.0\.1:\$\{[A-Z_]+:-\d+\}:\d+")


@cache
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return loaded


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


every_service = pytest.mark.parametrize("name", sorted(services()))


def with_defaults(text: str) -> str:
    """`${NAME:-value}` as it is when nobody sets NAME."""
    return re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)


@every_service
def test_every_image_has_a_version(name: str) -> None:
    image = with_defaults(services()[name]["image"])
    tag = image.rpartition(":")[2]
    assert re.search(r"\d+\.\d+", tag), f"{image}: a tag that stays what it is"


@every_service
def test_nobody_is_root_or_may_become_it(name: str) -> None:
    service = services()[name]
    user = str(service["user"]).split(":")[0]
    assert user.isdecimal(), "a number: Kubernetes and Docker can only check that"
    assert (int(user) != 0) or name in ROOT_ALLOWED
    assert service["cap_drop"] == ["ALL"]
    assert service.get("cap_add", []) == CAPABILITIES_ALLOWED.get(name, [])
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["read_only"] is True
    assert not service.get("privileged")
    assert service.get("network_mode") is None
    assert not [volume for volume in service.get("volumes", []) if str(volume).startswith(("/", ".", "~"))], (
        "bind mount"
    )


@every_service
def test_everybody_has_limits(name: str) -> None:
    service = services()[name]
    limits = service["deploy"]["resources"]["limits"]
    assert float(with_defaults(limits["cpus"])) > 0
    assert re.fullmatch(r"\d+[mg]", limits["memory"])
    assert int(limits["pids"]) > 0
    assert service["logging"]["options"]["max-size"]


@every_service
def test_everybody_shows_health_and_is_started_again(name: str) -> None:
    service = services()[name]
    disabled = service.get("healthcheck", {}).get("disable", False)
    assert disabled == (name in ONE_SHOTS)
    assert service["restart"] == ("no" if name in ONE_SHOTS else "unless-stopped")
    if not disabled and not service["image"].startswith(OURS):  # our images bring a check of their own
        assert service["healthcheck"]["test"][0] == "CMD"


@every_service
def test_whoever_waits_waits_for_health(name: str) -> None:
    needs = services()[name].get("depends_on", {})
    assert isinstance(needs, dict), "the short form waits for the start only"
    for other, how in needs.items():
        wanted = "service_completed_successfully" if other in ONE_SHOTS else "service_healthy"
        assert how["condition"] == wanted


@every_service
def test_ports_are_open_on_loopback_only(name: str) -> None:
    for port in services()[name].get("ports", []):
        assert PORT.fullmatch(port), port


@every_service
def test_what_is_not_pulled_is_built(name: str) -> None:
    service = services()[name]
    if not service["image"].startswith(OURS) or "build" in service:
        return
    assert service["pull_policy"] == "never"
    assert [other for other in services().values() if other["image"] == service["image"] and "build" in other]


def test_only_the_security_officer_sees_the_ca_and_nobody_two_identities() -> None:
    for name, service in services().items():
        volumes = [str(volume) for volume in service.get("volumes", [])]
        assert any(volume.startswith("security:") for volume in volumes) == (name == "identities")
        given = [volume for volume in volumes if volume.startswith("for-")]
        if name != "identities" and given:
            assert len(given) == 1
            assert given[0].endswith(":/var/lib/phalanx/identity:ro")


def test_the_bus_is_spoken_to_with_tls_and_an_identity() -> None:
    on_bus = [service for service in services().values() if "NATS_URL" in service.get("environment", {})]
    assert len(on_bus) > 3
    for service in on_bus:
        environment = service["environment"]
        assert environment["NATS_URL"].startswith("tls://")
        assert environment["NATS_TLS_CA"]
        assert environment.get("NATS_NKEY_SEED_FILE") or environment.get("PHALANX_DEMO_IDENTITIES")


def test_folders_of_volumes_are_in_the_image_so_that_their_owner_is_ours() -> None:
    dockerfile = (ROOT / "deploy" / "docker" / "Dockerfile").read_text(encoding="utf-8")
    for volume in services()["identities"]["volumes"]:
        folder = volume.split(":")[1].rpartition("/")[2]
        assert re.search(rf"[ /]{folder}[ \n]", dockerfile), folder


def test_every_service_of_the_repository_runs() -> None:
    folders = {path.parent.name for path in ROOT.glob("services/*/pyproject.toml")}
    images = {service["image"].partition(":")[0].removeprefix(OURS) for service in services().values()}
    assert folders <= images


def test_the_machines_are_those_of_the_demo() -> None:
    told = [word for service in services().values() for word in service.get("command", []) if word.startswith("node-")]
    assert sorted(told) == sorted([*NODES_BY_NAME, LATE_NODE])


def test_every_setting_is_explained_and_has_a_default() -> None:
    text = COMPOSE.read_text(encoding="utf-8")
    used = set(re.findall(r"\$\{([A-Z_]+):-", text))
    assert set(re.findall(r"\$\{?([A-Z_]+)", text)) == used, (
        "a variable without a default stops `up` from a clean clone"
    )
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^#?([A-Z_]+)=", example, flags=re.MULTILINE)) == used


def config_files() -> Iterator[Path]:
    for config in compose()["configs"].values():
        yield ROOT / config["file"]


def test_every_file_is_there_and_used() -> None:
    assert sorted(config_files()) == sorted((ROOT / "deploy" / "compose").iterdir())
    mounted = {entry["source"] for service in services().values() for entry in service.get("configs", [])}
    assert mounted == set(compose()["configs"])


def test_prometheus_looks_at_services_that_are_there() -> None:
    config = yaml.safe_load((ROOT / "deploy" / "compose" / "prometheus.yml").read_text(encoding="utf-8"))
    targets = [
        target for each in config["scrape_configs"] for one in each["static_configs"] for target in one["targets"]
    ]
    always = {name for name, service in services().items() if service["image"].startswith(OURS)}
    assert {target.partition(":")[0] for target in targets} == {
        name for name in always - ONE_SHOTS if "profiles" not in services()[name]
    }


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    board = json.loads((ROOT / "deploy" / "compose" / "grafana-recovery.json").read_text(encoding="utf-8"))
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"phalanx_\w+", target["expr"])
    }
    sources = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("*/*/src/*/**/*metrics.py"))
    missing = [name for name in asked if f'"{re.sub("_(bucket|sum|count)$", "", name)}"' not in sources]
    assert asked
    assert not missing

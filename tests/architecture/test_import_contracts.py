"""The import contracts of pyproject.toml can fail: violations planted in a copy of the sources are all reported.

That the sources themselves keep the contracts is checked by `make imports`; here one forbidden import of each sort is
planted, and the report must name every one of them under the contract it breaks.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import repo_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One violation: `line` is added to `module`; `contract` must be broken and `reported` named."""

    contract: str
    module: str
    line: str
    reported: str


SERVICES = ("health_ingest", "fault_classifier", "recovery_planner", "node_agent")

ROOMS = "A service has six rooms, and they point down"
PACKAGES = "Packages point down, and services never import each other"
DOMAIN_IO = "A domain does no I/O: no clock, random, environment, file, log or client library"
ENGINE_IO = "The engine does no I/O; only its loading of rules reads files"
ADDRESSING = "A domain sees payloads, not addressing"
PURE = "Contracts, topology and the wire format of the worker socket do no I/O"
STDLIB = "What lives inside a training process needs the standard library only"
PORTS = "A use case sees ports, not what stands behind them"
NATS = "Only service_kit.jetstream knows NATS"
NVML = "Only the process that may hang for it asks NVML"
KUBERNETES = "Only the operator's adapter knows the Kubernetes client"
TORCH = "No library, service or agent imports torch; the demo's training script does"
FAKES = "Fakes stay in the tests"
LIGHT = "The agent lives beside the training: no terminal toolkit, no web framework"
ACYCLIC = "No cycles between siblings"


def planted(contract: str, module: str, imported: str, *, line: str = "") -> Planted:
    """A forbidden import of `imported` in `module`."""
    return Planted(
        contract=contract, module=module, line=line or f"import {imported}", reported=f"{module} -> {imported}"
    )


VIOLATIONS = (
    planted(PACKAGES, "health_ingest.adapters.planted_service", "fault_classifier"),
    planted(PACKAGES, "service_kit.planted_upwards", "node_agent"),
    planted(PACKAGES, "fault_contracts.planted_kit", "service_kit"),
    planted(PACKAGES, "training_topology.planted_contracts", "fault_contracts"),
    planted(PACKAGES, "node_agent.adapters.planted_cli", "phalanx_cli"),
    planted(ROOMS, "recovery_planner.domain.planted_upwards", "recovery_planner.adapters"),
    planted(ROOMS, "recovery_planner.application.planted_upwards", "recovery_planner.adapters"),
    planted(ROOMS, "node_agent.adapters.planted_settings", "node_agent.settings"),
    planted(ROOMS, "fault_classifier.settings", "fault_classifier.main"),
    *(planted(DOMAIN_IO, f"{service}.domain.planted_os", "os") for service in SERVICES),
    planted(DOMAIN_IO, "node_agent.domain.planted_asyncio", "asyncio"),
    planted(DOMAIN_IO, "node_agent.domain.planted_time", "time"),
    planted(DOMAIN_IO, "node_agent.domain.planted_random", "random"),
    planted(DOMAIN_IO, "node_agent.domain.planted_logging", "logging"),
    planted(DOMAIN_IO, "node_agent.domain.planted_pydantic", "pydantic"),
    planted(DOMAIN_IO, "node_agent.domain.planted_kit", "service_kit"),
    planted(
        DOMAIN_IO,
        "node_agent.domain.planted_typing_only",
        "pathlib",
        line="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pathlib",
    ),
    planted(
        DOMAIN_IO, "node_agent.domain.planted_inside", "subprocess", line="def f() -> None:\n    import subprocess"
    ),
    planted(ENGINE_IO, "fault_attribution.derive.planted_os", "os"),
    planted(ADDRESSING, "health_ingest.domain.planted_subjects", "fault_contracts.subjects"),
    planted(PURE, "fault_contracts.planted_asyncio", "asyncio"),
    planted(PURE, "training_topology.planted_os", "os"),
    planted(PURE, "worker_link.frames", "socket"),
    planted(STDLIB, "worker_link.planted_torch", "torch"),
    planted(STDLIB, "training_topology.planted_pydantic", "pydantic"),
    planted(PORTS, "fault_classifier.application.planted_bus", "service_kit.jetstream"),
    planted(PORTS, "node_agent.application.planted_sqlite", "sqlite3"),
    planted(NATS, "node_agent.adapters.planted_nats", "nats"),
    planted(NATS, "service_kit.planted_nats", "nats"),
    planted(NVML, "node_agent.adapters.planted_nvml", "pynvml"),
    planted(KUBERNETES, "recovery_planner.adapters.planted_kubernetes", "kubernetes"),
    planted(TORCH, "node_agent.adapters.planted_torch", "torch"),
    planted(TORCH, "phalanx_cli.planted_torch", "torch"),
    planted(FAKES, "health_ingest.main", "service_kit.testing"),
    planted(LIGHT, "node_agent.adapters.planted_rich", "rich"),
    # Which of the two imports the report proposes to remove is its choice.
    Planted(
        contract=ACYCLIC,
        module="worker_link.planted_left",
        line="import worker_link.planted_right",
        reported="No cycles are allowed in worker_link",
    ),
    Planted(
        contract=ACYCLIC,
        module="worker_link.planted_right",
        line="import worker_link.planted_left",
        reported=".planted_right",
    ),
)


def copy_sources(target: Path) -> list[Path]:
    """Copies every package and the settings; returns the folders to put on the import path."""
    shutil.copy(repo_tree.ROOT / "pyproject.toml", target)
    folders = []
    for source in repo_tree.source_folders():
        folder = target / source.relative_to(repo_tree.ROOT)
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
        folders.append(folder)
    return folders


def plant(folders: list[Path], violation: Planted) -> None:
    """Adds the line to the module's file, which may be new."""
    package, _, rest = violation.module.partition(".")
    folder = next(path / package for path in folders if (path / package).is_dir())
    file = folder.joinpath(*rest.split(".")).with_suffix(".py")
    with file.open("a") as stream:
        stream.write(f"\n{violation.line}\n")


def report_of(target: Path, folders: list[Path]) -> tuple[int, str]:
    """Exit code and report of import-linter, as one line."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"],
        check=False,
        cwd=target,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def section_of(report: str, contract: str) -> str:
    """What the report says under the heading of one contract."""
    _, _, rest = report.partition(f"\n{contract}\n")
    lines = rest.splitlines()
    end = next((n for n, line in enumerate(lines[1:], start=1) if n > 1 and line.startswith("----")), len(lines))
    return "\n".join(lines[:end])


@pytest.fixture(scope="module")
def broken_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report on a copy in which every violation is planted."""
    target = tmp_path_factory.mktemp("sources")
    folders = copy_sources(target)
    for violation in VIOLATIONS:
        plant(folders, violation)
    code, report = report_of(target, folders)
    assert code == 1, report
    return report


@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda v: f"{v.module}-{v.reported.rpartition(' ')[2]}")
def test_planted_violation_is_reported(broken_report: str, violation: Planted) -> None:
    assert violation.reported in section_of(broken_report, violation.contract), broken_report


def test_seventh_room_is_reported(tmp_path: Path) -> None:
    folders = copy_sources(tmp_path)
    (tmp_path / "services/node-agent/src/node_agent/seventh_room.py").write_text('"""Not a room."""\n')
    code, report = report_of(tmp_path, folders)
    assert code == 1, report
    assert "seventh_room" in section_of(report, ROOMS), report


def test_every_contract_has_a_violation() -> None:
    names = {contract["name"] for contract in repo_tree.pyproject()["tool"]["importlinter"]["contracts"]}
    assert names == {violation.contract for violation in VIOLATIONS}

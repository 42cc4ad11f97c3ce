"""The repository as the architecture tests see it: tracked files, and new ones that git does not ignore."""

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@cache
def files() -> tuple[Path, ...]:
    """Every file that belongs to the repository, absolute, sorted."""
    listed = subprocess.run(
        # As root in a folder of another user git refuses to look, unless told that this is meant.
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=30,
    )
    names = listed.stdout.decode().split("\0")
    return tuple(sorted(path for name in names if name and (path := ROOT / name).is_file()))


def python_files(*folders: str) -> list[Path]:
    """Python files under the named top folders; of the whole repository without one."""
    return [
        path for path in files() if path.suffix == ".py" and (not folders or path.relative_to(ROOT).parts[0] in folders)
    ]


def source_folders() -> list[Path]:
    """The `src` folder of every member of the workspace."""
    return sorted([*ROOT.glob("libs/*/src"), *ROOT.glob("services/*/src"), ROOT / "cli" / "src"])


def markdown_files() -> list[Path]:
    """All documents."""
    return [path for path in files() if path.suffix == ".md"]


def name_of(path: Path) -> str:
    """A path as people read it."""
    return str(path.relative_to(ROOT))


def found(path: Path, line: int, what: str) -> str:
    """One finding, as editors and terminals link it."""
    return f"{name_of(path)}:{line}: {what}"


def assert_none(findings: list[str]) -> None:
    """Fails with the whole list, one finding a line."""
    if findings:
        pytest.fail(f"{len(findings)} findings\n" + "\n".join(findings), pytrace=False)


@cache
def tree_of(path: Path) -> ast.Module:
    """The parsed module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@cache
def pyproject() -> dict[str, Any]:
    """The settings of the workspace."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

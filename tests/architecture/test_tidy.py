"""The written rules of the source tree, as a test: each finding is `file:line: what is wrong`.

What ruff, mypy and import-linter can say is not repeated here.
"""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import repo_tree
from repo_tree import assert_none, found

SOURCES = ("libs", "services", "cli", "tools", "examples")
SERVICES = ("health_ingest", "fault_classifier", "recovery_planner", "node_agent")

MODULE_LINES_MAX = 300
TEST_MODULE_LINES_MAX = 400
"""Test modules are lists of independent cases; they may be longer."""
FUNCTION_LINES_MAX = 60
TEST_FUNCTION_LINES_MAX = 100

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager", "core"}
VAGUE_WORDS = {"utils", "util", "helpers", "helper", "misc"}
ROOMS = {"domain", "application", "adapters", "settings.py", "main.py", "__init__.py", "py.typed"}
DATA_FOLDERS = {"health_ingest": {"policies"}}
"""Rules as data (YAML), which adapters read and operators may replace."""
SECOND_MAINS = {"node_agent": {"host_main.py"}, "recovery_planner": {"operator_main.py"}}
"""A service with two roles has a main for each."""

# People in examples are called alice, bob, user, or by one letter.
MACHINE_PATH = re.compile(r"(?<![\w.*~-])/(?:root|work|Users/[A-Z]\w+|home/(?!alice\b|bob\b|user\b|[a-z]/)[a-z]\w*)/")
PRIVATE_HOST = re.compile(
    r"https?://(?:[\w.-]+\.(?:internal|corp|lan|intranet)\b|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.)"
)
LOCK_HOSTS = {"pypi.org", "files.pythonhosted.org"}
UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E])\b")


def is_test(path: Path) -> bool:
    """Under tests/."""
    return path.relative_to(repo_tree.ROOT).parts[0] == "tests"


@cache
def text_files() -> tuple[tuple[Path, str], ...]:
    """Every file of the repository that is text, with its text."""
    texts = []
    for path in repo_tree.files():
        raw = path.read_bytes()
        if b"\0" not in raw:
            texts.append((path, raw.decode("utf-8", errors="replace")))
    return tuple(texts)


def lines_with(pattern: re.Pattern[str]) -> Iterator[tuple[Path, int, str]]:
    """File, line number and match of every hit in the repository."""
    for path, text in text_files():
        for number, line in enumerate(text.splitlines(), start=1):
            hit = pattern.search(line)
            if hit:
                yield path, number, hit.group()


# -------------------------------------------------------------------------------------------------- size and names


def test_every_module_says_why_it_exists() -> None:
    findings = []
    for path in repo_tree.python_files():
        docstring = ast.get_docstring(repo_tree.tree_of(path)) or ""
        if len(docstring) < 15:
            findings.append(found(path, 1, f"module docstring missing or empty words: {docstring!r}"))
    assert_none(findings)


def test_modules_are_short() -> None:
    findings = []
    for path in repo_tree.python_files():
        limit = TEST_MODULE_LINES_MAX if is_test(path) else MODULE_LINES_MAX
        count = len(path.read_text(encoding="utf-8").splitlines())
        if count > limit:
            findings.append(found(path, limit, f"{count} lines; the wall is {limit}"))
    assert_none(findings)


def test_functions_are_short() -> None:
    findings = []
    for path in repo_tree.python_files():
        limit = TEST_FUNCTION_LINES_MAX if is_test(path) else FUNCTION_LINES_MAX
        for function in repo_tree.functions_of(path):
            count = (function.end_lineno or function.lineno) - function.lineno + 1
            if count > limit:
                findings.append(found(path, function.lineno, f"{function.name} has {count} lines; the wall is {limit}"))
    assert_none(findings)


def test_names_say_something() -> None:
    findings = []
    for path in repo_tree.python_files():
        places = (*path.relative_to(repo_tree.ROOT).parts[:-1], path.stem)
        vague = [place for place in places if place in VAGUE_NAMES or VAGUE_WORDS & set(place.split("_"))]
        findings += [found(path, 1, f"{place!r} is a name for anything; name the concept") for place in vague]
    assert_none(findings)


def test_test_modules_have_unique_names() -> None:
    by_name = defaultdict(list)
    for path in repo_tree.python_files("tests"):
        if path.name != "conftest.py":
            by_name[path.name].append(path)
    assert_none(
        [found(paths[1], 1, f"also {repo_tree.name_of(paths[0])}") for paths in by_name.values() if len(paths) > 1]
    )


# ---------------------------------------------------------------------------------------------------- rooms


def service_folder(package: str) -> Path:
    """The package folder of a service."""
    return repo_tree.ROOT / "services" / package.replace("_", "-") / "src" / package


def test_services_have_the_six_rooms() -> None:
    findings = []
    for package in SERVICES:
        folder = service_folder(package)
        present = {entry.name for entry in folder.iterdir() if entry.name != "__pycache__"}
        findings += [found(folder, 1, f"room {room} is missing") for room in sorted(ROOMS - present)]
        findings += [
            found(folder / extra, 1, "a seventh room")
            for extra in sorted(present - ROOMS - SECOND_MAINS.get(package, set()) - DATA_FOLDERS.get(package, set()))
        ]
    assert_none(findings)


def test_every_service_is_known_here() -> None:
    assert {path.name for path in repo_tree.ROOT.glob("services/*/src/*") if path.is_dir()} == set(SERVICES)


def test_domains_are_pure() -> None:
    """What the import contracts cannot see: coroutines, files and the console."""
    findings = []
    for package in SERVICES:
        for path in sorted((service_folder(package) / "domain").rglob("*.py")):
            for node in ast.walk(repo_tree.tree_of(path)):
                if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
                    findings.append(found(path, node.lineno, "a domain does not wait"))
                elif (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in {"open", "print", "input", "exec", "eval", "__import__"}
                ):
                    findings.append(found(path, node.lineno, f"a domain does not call {node.func.id}"))
    assert_none(findings)


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Full names of the modules that a file imports, and of what it imports from them."""
    names = set()
    for node in ast.walk(repo_tree.tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def test_every_domain_module_has_tests() -> None:
    """A test module of its name, or one of the domain's tests that imports it."""
    findings = []
    for package in SERVICES:
        folder = repo_tree.ROOT / "tests" / "unit" / package / "domain"
        tests = sorted(folder.glob("test_*.py"))
        imported = {name for test in tests for name in imports_of(test)}
        for path in sorted((service_folder(package) / "domain").glob("[!_]*.py")):
            named = {f"test_{path.stem}.py", f"test_{package}_{path.stem}.py"} & {test.name for test in tests}
            if not named and f"{package}.domain.{path.stem}" not in imported:
                findings.append(found(path, 1, f"no test in {repo_tree.name_of(folder)} has its name or imports it"))
    assert_none(findings)


def test_workers_packages_use_the_standard_library_only() -> None:
    findings = []
    for package in ("worker_link", "training_topology"):
        allowed = set(sys.stdlib_module_names) | {package}
        folder = repo_tree.ROOT / "libs" / package.replace("_", "-") / "src" / package
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(repo_tree.tree_of(path)):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module or ""]
                else:
                    continue
                foreign = [name for name in names if name.partition(".")[0] not in allowed]
                findings += [found(path, node.lineno, f"imports {name}") for name in foreign]
    assert_none(findings)


# --------------------------------------------------------------------------------------------------- errors


@cache
def comment_lines(path: Path) -> frozenset[int]:
    """Numbers of the lines that carry a comment."""
    source = io.StringIO(path.read_text(encoding="utf-8"))
    return frozenset(t.start[0] for t in tokenize.generate_tokens(source.readline) if t.type == tokenize.COMMENT)


def is_wide(handler: ast.ExceptHandler) -> bool:
    """Catches everything."""
    return handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"}
    )


def test_errors_do_not_pass_silently() -> None:
    """An empty handler names a narrow error and says in a comment why nothing is to be done."""
    findings = []
    for path in repo_tree.python_files():
        for node in ast.walk(repo_tree.tree_of(path)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            silent = all(
                isinstance(statement, ast.Pass)
                or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
                for statement in node.body
            )
            if not silent:
                continue
            last = node.body[-1].end_lineno or node.lineno
            if is_wide(node):
                findings.append(found(path, node.lineno, "catches everything and says nothing"))
            elif not comment_lines(path) & set(range(node.lineno, last + 1)):
                findings.append(found(path, node.lineno, "an empty handler without the reason in a comment"))
    assert_none(findings)


def test_nothing_is_left_unfinished() -> None:
    assert_none(
        [found(path, line, hit) for path, line, hit in lines_with(UNFINISHED) if path.suffix in {".py", ".sh", ".md"}]
    )


# ------------------------------------------------------------------------------------------------ this machine


def test_no_machine_paths() -> None:
    assert_none([found(path, line, f"path of one machine: {hit}") for path, line, hit in lines_with(MACHINE_PATH)])


def test_no_private_hosts() -> None:
    assert_none([found(path, line, f"private host: {hit}") for path, line, hit in lines_with(PRIVATE_HOST)])


def test_lock_file_names_public_hosts_only() -> None:
    lock = repo_tree.ROOT / "uv.lock"
    findings = []
    for number, line in enumerate(lock.read_text(encoding="utf-8").splitlines(), start=1):
        findings += [found(lock, number, host) for host in re.findall(r"://([^/\"]+)", line) if host not in LOCK_HOSTS]
        if re.search(r"\b(?:path|directory|find-links) = \"/", line):
            findings.append(found(lock, number, "an absolute path"))
    assert_none(findings)

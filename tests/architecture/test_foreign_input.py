"""Rules of the source tree about what others write: how it is parsed, and what is never done with it."""

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import repo_tree
from repo_tree import assert_none, found

SOURCES = ("libs", "services", "cli")
YAML_READERS = {
    "service_kit/bounded_yaml.py",
    "health_ingest/adapters/check_policy_yaml.py",  # builds from nodes, after refuse_unbounded
    "node_agent/adapters/log_rules_yaml.py",  # a composer that counts, and lines of each value
    "phalanx_cli/diagnose/yaml_nodes.py",  # documents of evidence: several in a file, and larger
    "recovery_planner/adapters/",  # the Kubernetes client's own files
}
YAML_CALLS = {"load", "load_all", "safe_load", "safe_load_all", "full_load", "unsafe_load", "compose", "compose_all"}
NEVER = {
    "pickle": {"load", "loads", "Unpickler"},
    "marshal": {"load", "loads"},
    "shelve": {"open"},
    "os": {"system", "popen"},
    "tempfile": {"mktemp"},
    "yaml": {"full_load", "unsafe_load", "Loader", "UnsafeLoader", "FullLoader"},
}


def calls() -> Iterator[tuple[Path, ast.Call, str, str]]:
    """File, call, and `module.name` of every such call of the sources."""
    for path in repo_tree.python_files(*SOURCES):
        for node in ast.walk(repo_tree.tree_of(path)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)):
                    yield path, node, module, name


def test_yaml_is_read_where_its_bounds_are() -> None:
    assert_none(
        [
            found(path, call.lineno, "YAML without bounds; use service_kit.bounded_yaml")
            for path, call, module, name in calls()
            if module == "yaml" and name in YAML_CALLS and not any(each in str(path) for each in YAML_READERS)
        ]
    )


def test_nothing_foreign_is_executed() -> None:
    findings = [
        found(path, call.lineno, f"{module}.{name} is never used")
        for path, call, module, name in calls()
        if name in NEVER.get(module, ())
    ]
    for path, call, _, _ in calls():
        for word in call.keywords:
            if word.arg == "shell" and not (isinstance(word.value, ast.Constant) and word.value.value is False):
                findings.append(found(path, call.lineno, "no shell"))
            if word.arg == "weights_only" and not (isinstance(word.value, ast.Constant) and word.value.value is True):
                findings.append(found(path, call.lineno, "torch.load unpickles without weights_only=True"))
    assert_none(findings)


# ------------------------------------------------------------------------------------- patterns of Python's re


def patterns() -> Iterator[tuple[Path, int, Any]]:
    """Every pattern that is a constant, as Python's parser reads it. Rules of users run in RE2, which is linear."""
    import re._parser as parser  # type: ignore[import-not-found]

    for path, call, module, name in calls():
        if module == "re" and name in {
            "compile",
            "match",
            "search",
            "fullmatch",
            "finditer",
            "findall",
            "sub",
            "split",
        }:
            text = call.args[0] if call.args else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str | bytes):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield path, call.lineno, parser.parse(text.value)


def loops(pattern: Any, inside: bool = False) -> Iterator[str]:
    """Repeats without an end inside repeats without an end: the ones that can take exponential time."""
    for op, argument in pattern:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            _, most, body = argument
            endless = str(most) == "MAXREPEAT"
            if endless and inside and not _starts_with_a_mark(body):
                yield "a repeat in a repeat"
            # (?:,x+)* is safe: each round begins with a text that the inner repeat cannot eat.
            yield from loops(body, inside or (endless and not _starts_with_a_mark(body)))
        elif name == "SUBPATTERN":
            yield from loops(argument[-1], inside)
        elif name == "BRANCH":
            for each in argument[1]:
                yield from loops(each, inside)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from loops(argument[1], inside)


def _starts_with_a_mark(body: Any) -> bool:
    """Whether it begins or ends with one fixed character."""
    ops = [str(op) for op, _ in body]
    return len(ops) > 1 and "LITERAL" in (ops[0], ops[-1])


def test_no_pattern_takes_exponential_time() -> None:
    seen = list(patterns())
    assert len(seen) > 40
    assert_none([found(path, line, what) for path, line, pattern in seen for what in loops(pattern)])


def test_the_check_of_patterns_can_fail() -> None:
    import re._parser as parser

    for bad in (r"(a+)+$", r"(?:\s*\w*)*x", r"(x|y+)*z"):
        assert list(loops(parser.parse(bad))), bad
    for good in (r"a+b+", r"(?:,\d+)*", r"(?:a{1,3})+", r"\w+(?:\.\w+)*"):
        assert not list(loops(parser.parse(good))), good
    assert re.compile("a")

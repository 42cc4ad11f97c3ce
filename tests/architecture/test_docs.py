"""What the documents say exists: links, make verbs, commands, flags, files and the tests named as proof."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import repo_tree
from repo_tree import assert_none, found

CODE_SPAN = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^\s*(```|~~~)")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|<(?:img|source)[^>]+(?:src|srcset)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
MAKE_VERB = re.compile(r"(?:^|[\s;&(])make ([a-z][a-z0-9-]*)")
COMMAND = re.compile(r"(?:^|[\s;&(/])phalanx ([a-z][a-z-]*)")
TOP_FOLDERS = ("libs", "services", "cli", "tests", "tools", "docs", "examples", "rules", "deploy", ".ci")
REPO_PATH = re.compile(rf"(?:{'|'.join(map(re.escape, TOP_FOLDERS))})/[\w./*\[\]-]+")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")


@cache
def lines_of(path: Path) -> tuple[tuple[int, str, bool], ...]:
    """Line number, text, and whether the line lies in a fenced block."""
    fenced = False
    lines = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if FENCE.match(line):
            fenced = not fenced
            continue
        lines.append((number, line, fenced))
    return tuple(lines)


def code_in(path: Path) -> Iterator[tuple[int, str]]:
    """Every piece of code in a document: the lines of fenced blocks, and the spans in backticks."""
    for number, line, fenced in lines_of(path):
        if fenced:
            yield number, line
        else:
            yield from ((number, span) for span in CODE_SPAN.findall(line))


def anchors_of(path: Path) -> set[str]:
    """The anchors that GitHub makes of the headings."""
    anchors = set()
    for _, line, fenced in lines_of(path):
        heading = HEADING.match(line)
        if heading and not fenced:
            text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            anchors.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return anchors


# ------------------------------------------------------------------------------------------------------ links


def link_problem(document: Path, target: str) -> str | None:
    """What is wrong with a relative link; None when nothing is."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    name, _, anchor = target.partition("#")
    file = (document.parent / name).resolve() if name else document
    if not file.exists():
        return f"link to {target}: no such file"
    if not file.is_relative_to(repo_tree.ROOT):
        return f"link to {target}: outside the repository"
    if anchor and file.suffix == ".md" and anchor not in anchors_of(file):
        return f"link to {target}: no such heading"
    return None


def test_relative_links_resolve() -> None:
    findings = []
    for document in repo_tree.markdown_files():
        for number, line, fenced in lines_of(document):
            for target in LINK.findall("" if fenced else line):
                problem = link_problem(document, target[0] or target[1])
                if problem:
                    findings.append(found(document, number, problem))
    assert_none(findings)


def test_every_decision_record_is_in_the_index() -> None:
    index = repo_tree.ROOT / "docs" / "adr" / "README.md"
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", index.read_text(encoding="utf-8"))
    present = sorted(path.name for path in index.parent.glob("[0-9]*.md"))
    assert listed == present


# --------------------------------------------------------------------------------------------- verbs and commands


@cache
def make_verbs() -> frozenset[str]:
    """The targets of the Makefile that `make` itself lists."""
    text = (repo_tree.ROOT / "Makefile").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^([a-z][a-z0-9-]*):.*##", text, flags=re.MULTILINE))


def test_every_make_verb_exists() -> None:
    findings = []
    for document in repo_tree.markdown_files():
        for number, code in code_in(document):
            unknown = [verb for verb in MAKE_VERB.findall(code) if verb not in make_verbs()]
            findings += [found(document, number, f"make {verb}: no such verb") for verb in unknown]
    assert_none(findings)


def test_every_phony_target_is_listed() -> None:
    text = (repo_tree.ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"^\.PHONY: ([\w-]+)$", text, flags=re.MULTILINE)) == make_verbs()


@cache
def help_of(*command: str) -> tuple[int, str]:
    """Exit code and output of `phalanx COMMAND --help`."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("phalanx")), *command, "--help"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
    )
    return done.returncode, done.stdout + done.stderr


def commands_named() -> dict[str, str]:
    """Every `phalanx X` in the documents, with the first place that names it."""
    places: dict[str, str] = {}
    for document in repo_tree.markdown_files():
        for number, code in code_in(document):
            for command in COMMAND.findall(code):
                places.setdefault(command, f"{repo_tree.name_of(document)}:{number}")
    return places


def test_every_command_exists() -> None:
    findings = []
    for command, place in sorted(commands_named().items()):
        code, output = help_of(command)
        if code != 0:
            findings.append(f"{place}: phalanx {command} --help ends with {code}: {output.strip()[-200:]}")
    assert_none(findings)


def flags_in_manual(section: str) -> set[str]:
    """The flags in the first column of the tables under one heading of docs/cli.md."""
    flags: set[str] = set()
    inside = False
    for _, line, fenced in lines_of(repo_tree.ROOT / "docs" / "cli.md"):
        if not fenced and line.startswith("## "):
            inside = line == f"## {section}"
        elif inside and line.startswith("|"):
            flags |= set(FLAG.findall(line.split("|")[1]))
    return flags


def flags_in_help(output: str) -> set[str]:
    """The flags of a help text: what stands at the left of its list of options, in one spelling."""
    entries = [line.strip().partition("  ")[0] for line in output.splitlines() if line.lstrip().startswith("-")]
    return {flag.replace("_", "-") for entry in entries for flag in re.findall(r"--[a-z][a-z0-9_-]+", entry)}


@pytest.mark.parametrize("command", ["run", "demo"])
def test_flags_in_the_manual_are_the_flags_of_the_program(command: str) -> None:
    code, output = help_of(command)
    assert code == 0, output
    assert flags_in_manual(f"phalanx {command}") == flags_in_help(output) - {"--help"}


def test_settings_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("write_settings", repo_tree.ROOT / "tools" / "write_settings.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.TARGET.read_text(encoding="utf-8") == tool.settings_page(), "run: make contracts"


# ------------------------------------------------------------------------------------------------ files and tests


def path_problem(name: str) -> str | None:
    """What is wrong with a path of this repository; None when it leads to something."""
    name = name.rstrip("./")
    if "*" in name or "[" in name:
        return None if any(repo_tree.ROOT.glob(name)) else f"{name}: matches nothing"
    return None if (repo_tree.ROOT / name).exists() else f"{name}: no such file"


def test_every_path_exists() -> None:
    findings = []
    for document in repo_tree.markdown_files():
        for number, code in code_in(document):
            for match in REPO_PATH.finditer(code):
                # Part of a longer path or address, or a name with a placeholder: not ours to check.
                before, after = code[: match.start()][-1:], code[match.end() :][:1]
                if (before and before in "/.:-_") or (after and after in "<{$"):
                    continue
                problem = path_problem(match.group())
                if problem:
                    findings.append(found(document, number, problem))
    assert_none(findings)


@cache
def functions_in(path: Path) -> frozenset[str]:
    """Names of the functions of a module."""
    return frozenset(function.name for function in repo_tree.functions_of(path))


def test_every_test_named_as_proof_exists() -> None:
    findings = []
    for document in repo_tree.markdown_files():
        for number, code in code_in(document):
            for name, test in re.findall(r"(tests/[\w/]+\.py)::(\w+)", code):
                path = repo_tree.ROOT / name
                if path.is_file() and test not in functions_in(path):
                    findings.append(found(document, number, f"{name} has no {test}"))
    assert_none(findings)

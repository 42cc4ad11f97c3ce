"""Rule files: HyperPod's and ours, read from YAML with the line of everything that is wrong.

One bad rule is refused and the others are used. What makes a file dangerous is bounded while it is read: its size, the
number of its values and their depth. Aliases are never expanded: only plain values of a rule's fields are looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fault_attribution.matching.pattern import scans_every_line
from node_agent.adapters.log_rule_fields import Dialect, read_rule
from node_agent.application.log_ports import RefusedRule, RuleFile
from node_agent.domain.log_rule import LogRule

FILE_BYTES_MAX = 256 * 1024
"""200 rules of 1 KB each."""
NODES_MAX = 20_000
"""Values of any sort in a file; 200 rules with every field have 9,200. PyYAML makes 25,000 a second."""
DEPTH_MAX = 50
"""A manifest's rules lie at depth 7; PyYAML's composer is recursive."""
RULES_MAX = 200
EVERY_LINE_RULES_MAX = 20
"""Rules without fixed text cost up to 7 us a line each: twenty of them still leave 7,000 lines/s."""
LIST_ITEMS_MAX = 1_000
REFUSALS_MAX = 100
"""A file of another kind has thousands of things wrong; a person reads the first hundred."""

HYPERPOD_FIELD = "logMonitoringConfiguration"


class FileRefused(Exception):
    """The file as a whole cannot be used."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


class _BoundedLoader(yaml.SafeLoader):
    """Refuses a file while it is being composed, not after."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Count, and compose as usual."""
        self._nodes += 1
        self._depth += 1
        if self._nodes > NODES_MAX:
            raise FileRefused(f"has more than {NODES_MAX} values", self.line + 1)
        if self._depth > DEPTH_MAX:
            raise FileRefused(f"is nested more than {DEPTH_MAX} deep", self.line + 1)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signature:
    """Differs when the file was changed or replaced."""

    modified_ns: int
    size: int
    inode: int


class YamlRuleFile:
    """application.log_ports.RuleSource on one file. Reading takes up to a second for the largest file; use a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._signature: _Signature | None = None
        self._was_missing = False

    def load(self) -> RuleFile:
        """Read the file now; never raises."""
        self._signature = None
        return self.reload() or RuleFile(error=self._refused("cannot be read", 0))

    def reload(self) -> RuleFile | None:
        """Read the file if it changed since the last reading; a file that cannot be read is told once."""
        try:
            found, data = self._changed_bytes()
        except OSError as error:
            if self._was_missing and self._signature is None:
                return None
            self._was_missing, self._signature = True, None
            return RuleFile(error=self._refused(f"cannot be read: {error.strerror}", 0))
        except FileRefused as refused:
            return RuleFile(error=self._refused(str(refused), refused.line))
        if data is None:
            return None
        self._was_missing, self._signature = False, found
        return parse_rules(data, str(self._path))

    def _changed_bytes(self) -> tuple[_Signature, bytes | None]:
        """What the file is now, and its bytes when it is not what was read last."""
        # Non-blocking: opening a FIFO by mistake must not hold the agent.
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(stream.fileno())
            signature = _Signature(modified_ns=status.st_mtime_ns, size=status.st_size, inode=status.st_ino)
            if signature == self._signature:
                return signature, None
            if not stat.S_ISREG(status.st_mode):
                self._signature = signature
                raise FileRefused("is not a regular file")
            return signature, stream.read(FILE_BYTES_MAX + 1)

    def _refused(self, reason: str, line: int) -> RefusedRule:
        return RefusedRule(file=str(self._path), line=line, rule="", reason=reason)


def parse_rules(data: bytes, file: str) -> RuleFile:
    """Rules of one file's bytes; never raises."""
    try:
        lists = list(_rule_lists(_documents(data)))
    except FileRefused as refused:
        return RuleFile(error=RefusedRule(file=file, line=refused.line, rule="", reason=str(refused)))
    reading = _Reading(file=file)
    for dialect, items in lists:
        for node in items:
            reading.take(node, dialect)
    return reading.result()


def _documents(data: bytes) -> list[yaml.Node]:
    if len(data) > FILE_BYTES_MAX:
        raise FileRefused(f"is larger than {FILE_BYTES_MAX} bytes")
    try:
        loader = _BoundedLoader(data.decode())
        nodes = []
        while loader.check_node():
            nodes.append(loader.get_node())
    except UnicodeDecodeError as error:
        raise FileRefused(f"is not UTF-8 (byte {error.start})", data.count(b"\n", 0, error.start) + 1) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise FileRefused(f"is not YAML: {error.problem or error.context}", mark.line + 1 if mark else 0) from error
    except yaml.YAMLError as error:
        raise FileRefused(f"is not YAML: {' '.join(str(error).split())}") from error
    return [node for node in nodes if node is not None]


def _rule_lists(documents: list[yaml.Node]) -> Iterator[tuple[Dialect, list[yaml.Node]]]:
    """The rule lists of all documents: a bare list and logMonitoringConfiguration are HyperPod's, `rules` is ours."""
    found = False
    for document in documents:
        for dialect, node in (
            (Dialect.HYPERPOD, document if isinstance(document, yaml.SequenceNode) else None),
            (Dialect.OURS, _child(document, "rules")),
            (Dialect.HYPERPOD, _child(document, HYPERPOD_FIELD)),
            (Dialect.HYPERPOD, _child(document, "runPolicy", HYPERPOD_FIELD)),
            (Dialect.HYPERPOD, _child(document, "spec", "runPolicy", HYPERPOD_FIELD)),
        ):
            if node is None:
                continue
            if not isinstance(node, yaml.SequenceNode):
                raise FileRefused("the rules must be a list", _line(node))
            found = True
            yield dialect, node.value
    if not found:
        raise FileRefused(f"has no rules: neither a list under `rules` nor {HYPERPOD_FIELD}")


def _child(node: yaml.Node, *path: str) -> yaml.Node | None:
    """The node under a path of keys, or None."""
    for wanted in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        children = [value for key, value in node.value if isinstance(key, yaml.ScalarNode) and key.value == wanted]
        if not children:
            return None
        node = children[-1]
    return node


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


@dataclass(slots=True, kw_only=True)
class _Reading:
    """Collects rules and refusals of one file."""

    file: str
    rules: list[LogRule] = field(default_factory=list)
    refused: list[RefusedRule] = field(default_factory=list)
    notices: list[RefusedRule] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    """Where each name was first used, by refused rules too."""
    every_line: int = 0

    def take(self, node: yaml.Node, dialect: Dialect) -> None:
        """Read one item of a rule list."""
        if len(self.refused) >= REFUSALS_MAX:
            return
        line = _line(node)
        if not isinstance(node, yaml.MappingNode):
            self._refuse(line, "", "a rule must be a mapping of fields")
            return
        values, lines, problems = _fields(node)
        name = values.get("name")
        name = name if isinstance(name, str) else ""
        for at, problem in problems:
            self._refuse(at, name, problem)
        if problems:
            return
        reading = read_rule(values, dialect)
        for which, reason in reading.problems:
            self._refuse(lines.get(which, line), name, reason)
        self.notices += [self._entry(lines.get(which, line), name, reason) for which, reason in reading.notices]
        if reading.rule is not None:
            self._add(reading.rule, lines.get("name", line))

    def _add(self, rule: LogRule, line: int) -> None:
        if rule.name in self.lines:
            self._refuse(line, rule.name, f"the name is already used in line {self.lines[rule.name]}")
            return
        if len(self.rules) >= RULES_MAX:
            self._refuse(line, rule.name, f"there are more than {RULES_MAX} rules")
            return
        patterns = [pattern for pattern in (rule.pattern, rule.stop_pattern) if pattern is not None]
        if any(scans_every_line(pattern) for pattern in patterns):
            self.every_line += 1
            reason = "a pattern has no fixed text of three characters or more, so it is tried on every line"
            if self.every_line > EVERY_LINE_RULES_MAX:
                self._refuse(line, rule.name, f"{reason}; at most {EVERY_LINE_RULES_MAX} such rules are accepted")
                return
            self.notices.append(self._entry(line, rule.name, reason))
        self.lines[rule.name] = line
        self.rules.append(rule)

    def result(self) -> RuleFile:
        """All of it."""
        return RuleFile(rules=tuple(self.rules), refused=tuple(self.refused), notices=tuple(self.notices))

    def _refuse(self, line: int, name: str, reason: str) -> None:
        self.refused.append(self._entry(line, name, reason))

    def _entry(self, line: int, name: str, reason: str) -> RefusedRule:
        return RefusedRule(file=self.file, line=line, rule=name[:128], reason=reason)


def _fields(node: yaml.MappingNode) -> tuple[dict[str, Any], dict[str, int], list[tuple[int, str]]]:
    """Values of a rule's fields, the line of each, and what cannot be read as a field."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    problems: list[tuple[int, str]] = []
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            problems.append((_line(key), "a field's name must be a word"))
        elif key.value in values:
            problems.append((_line(key), f"{key.value} is given twice"))
        else:
            lines[key.value] = _line(key)
            try:
                values[key.value] = _plain(value)
            except (ValueError, yaml.YAMLError) as error:
                values[key.value] = None
                reason = str(error).splitlines()[0] if str(error) else "not a plain value"
                problems.append((_line(value), f"{key.value} cannot be read: {reason}"))
    return values, lines, problems


def _plain(node: yaml.Node) -> Any:
    """A scalar, or a list of scalars."""
    if isinstance(node, yaml.SequenceNode):
        if len(node.value) > LIST_ITEMS_MAX:
            raise ValueError(f"more than {LIST_ITEMS_MAX} items")
        return [_scalar(each) for each in node.value]
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError("a field holds a plain value or a list of them")
    return yaml.SafeLoader("").construct_object(node)

"""Several rule files as one list of rules: names are unique over all of them, and limits count all of them.

One file that cannot be used any more keeps all rules in use as they are: half of the rules would be a third set, which
nobody wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fault_attribution.matching.pattern import scans_every_line
from node_agent.adapters.log_rules_yaml import EVERY_LINE_RULES_MAX, REFUSALS_MAX, RULES_MAX, YamlRuleFile
from node_agent.application.log_ports import RefusedRule, RuleFile
from node_agent.domain.log_rule import LogRule

FILES_MAX = 16
"""A look at them is one stat each, every few seconds."""


def rule_files_problem(paths: Sequence[Path]) -> str:
    """Why the rules cannot be used at all, as a sentence; empty when they can. One bad rule is no such problem."""
    if len(paths) > FILES_MAX:
        return f"--log-rules: {len(paths)} files are given; at most {FILES_MAX} are read"
    for path in paths:
        error = YamlRuleFile(path).load().error
        if error is not None:
            return f"--log-rules: {error}"
    return ""


class LogRuleFiles:
    """application.log_ports.RuleSource."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = [(path, YamlRuleFile(path)) for path in dict.fromkeys(paths)]
        self._read: dict[Path, RuleFile] = {}

    def load(self) -> RuleFile:
        """Read all of them now; never raises."""
        self._read = {path: file.load() for path, file in self._files}
        return self._united()

    def reload(self) -> RuleFile | None:
        """Read those that changed; None when none did."""
        changed = {path: found for path, file in self._files if (found := file.reload()) is not None}
        if not changed:
            return None
        self._read.update(changed)
        return self._united()

    def _united(self) -> RuleFile:
        for file in self._read.values():
            if file.error is not None:
                return file
        rules: dict[str, tuple[LogRule, Path]] = {}
        refused = [entry for file in self._read.values() for entry in file.refused]
        every_line = 0
        for path, file in self._read.items():
            for rule in file.rules:
                scans = any(scans_every_line(pattern) for pattern in (rule.pattern, rule.stop_pattern) if pattern)
                reason = ""
                if rule.name in rules:
                    reason = f"the name is already used in {rules[rule.name][1]}"
                elif len(rules) >= RULES_MAX:
                    reason = f"there are more than {RULES_MAX} rules in all files"
                elif scans and every_line >= EVERY_LINE_RULES_MAX:
                    reason = f"more than {EVERY_LINE_RULES_MAX} rules in all files have no fixed text"
                if reason:
                    refused.append(RefusedRule(file=str(path), line=0, rule=rule.name, reason=reason))
                    continue
                every_line += scans
                rules[rule.name] = (rule, path)
        return RuleFile(
            rules=tuple(rule for rule, _ in rules.values()),
            refused=tuple(refused[:REFUSALS_MAX]),
            notices=tuple(entry for file in self._read.values() for entry in file.notices),
        )

"""Writes docs/causes.md from the rulebook: one section a cause, so that a slug in a verdict can be looked up."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from fault_classifier.domain.rule import Rule
from fault_classifier.domain.rulebook import RULEBOOK

TARGET = Path(__file__).resolve().parent.parent / "docs" / "causes.md"

HEAD = """# Causes

Every cause that a verdict can name, from the rulebook of fault-classifier
(`services/fault-classifier/src/fault_classifier/domain/rulebook.py`). Written by `tools/write_causes.py`; do not edit.

A verdict names the cause, whose fault it is (`hardware`, `driver`, `platform`, `user` or `unknown`), the rule that said
so with the evidence it rests on, what speaks against it, and what to do. When in doubt the answer is `unknown`.

| cause | whose | what the judge recommends | rule |
|---|---|---|---|
"""


def causes_page(rulebook: tuple[Rule, ...] = RULEBOOK) -> str:
    """The whole page."""
    ordered = sorted(rulebook, key=lambda rule: rule.cause)
    rows = [f"| [{r.cause}](#{r.cause}) | {r.attribution} | `{r.action}` | `{r.rule_id}` |" for r in ordered]
    sections = [_section(cause, list(rules)) for cause, rules in groupby(ordered, key=lambda rule: rule.cause)]
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(sections)


def _section(cause: str, rules: list[Rule]) -> str:
    return "\n".join([f"## {cause}\n", *map(_paragraph, rules)])


def _paragraph(rule: Rule) -> str:
    return (
        f"{rule.meaning}\n\n"
        f"- Whose fault: {rule.attribution}, by rule `{rule.rule_id}`, confidence {rule.confidence:g} before doubts.\n"
        f"- Recommended: `{rule.action}`. {rule.advice}\n"
        f"- Not meant: {rule.near_miss}\n"
        f"- Source: {rule.source}.\n"
    )


def main() -> int:
    """Write the page; returns the exit code."""
    TARGET.write_text(causes_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes docs/causes.md from the shipped cause rules: one section a cause, so that a slug can be looked up."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from fault_attribution.cause_rule import CauseRule
from fault_attribution.loading.rule_files import load_rules

TARGET = Path(__file__).resolve().parent.parent / "docs" / "causes.md"

HEAD = """# Causes

Every cause that a verdict can name, from the cause rules of fault-attribution
(`libs/fault-attribution/src/fault_attribution/rules/causes/`). Written by `tools/write_causes.py`; do not edit.

A verdict names the cause, whose fault it is (`hardware`, `driver`, `platform`, `user` or `unknown`), the rule that said
so with the evidence it rests on, what speaks against it, and what to do. When in doubt the answer is `unknown`.

| cause | whose | what the judge recommends | rule |
|---|---|---|---|
"""


def causes_page(rules: tuple[CauseRule, ...] | None = None) -> str:
    """The whole page."""
    ordered = sorted(rules or load_rules().causes.rules, key=lambda rule: (rule.cause, rule.rule_id))
    rows = [f"| [{r.cause}](#{r.cause}) | {r.attribution} | `{r.action}` | `{r.rule_id}` |" for r in ordered]
    sections = [_section(cause, list(group)) for cause, group in groupby(ordered, key=lambda rule: rule.cause)]
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(sections)


def _section(cause: str, rules: list[CauseRule]) -> str:
    return "\n".join([f"## {cause}\n", *map(_paragraph, rules)])


def _paragraph(rule: CauseRule) -> str:
    seen = "; ".join(f"`{weight.see.text}` ({weight.score:g})" for weight in rule.when)
    return (
        f"{rule.meaning}\n\n"
        f"- Whose fault: {rule.attribution}, by rule `{rule.rule_id}`; seen by {seen}.\n"
        f"- Recommended: `{rule.action}`. {rule.advice}\n"
        f"- Would settle it: {rule.decide}.\n"
        f"- Not meant: {rule.near_miss}\n"
        f"- Source: {rule.origin}.\n"
    )


def main() -> int:
    """Write the page; returns the exit code."""
    TARGET.write_text(causes_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

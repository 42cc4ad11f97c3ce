"""Writes docs/causes.md from the shipped cause rules: one section a cause, so that a slug can be looked up."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from fault_attribution.cause_rule import CauseRule, Weight
from fault_attribution.loading.rule_files import load_rules
from fault_attribution.signature import RuleState

TARGET = Path(__file__).resolve().parent.parent / "docs" / "causes.md"

HEAD = """# Causes

Every cause that a verdict can name, from the cause rules of fault-attribution
(`libs/fault-attribution/src/fault_attribution/rules/causes/`). Written by `tools/write_causes.py`; do not edit.

A verdict names the cause, whose fault it is (`hardware`, `driver`, `platform`, `user` or `unknown`), the rule that said
so with the evidence it rests on, what speaks against it, and what to do. When in doubt the answer is `unknown`.

Terms are in the words of [findings](findings.md); their numbers are weights of evidence ([rules](rules.md#weights)).
The heaviest term of "told by" counts, and every one of the others that holds. `phalanx rules explain CAUSE` prints the
same with a site's own rules.

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
    instead = "".join(f" `{choice.action}` where `{choice.see.text}`." for choice in rule.actions)
    state = "" if rule.state is RuleState.ACTIVE else f" ({rule.state})"
    return (
        f"{rule.meaning}\n\n"
        f"- Whose fault: {rule.attribution}, by rule `{rule.rule_id}`{state}; blames: {rule.culprit}.\n"
        f"- Recommended: `{rule.action}`.{instead} {rule.advice}\n"
        f"- Told by:\n{_weights('+', rule.when)}"
        + (f"- More likely with:\n{_weights('+', rule.more)}" if rule.more else "")
        + (f"- Less likely with:\n{_weights('-', rule.less)}" if rule.less else "")
        + f"- Would settle it: {_sentence(rule.decide)}\n"
        f"- Not meant: {_sentence(rule.near_miss)}\n"
        f"- Source: {_sentence(rule.origin)}\n"
    )


def _weights(sign: str, weights: tuple[Weight, ...]) -> str:
    """Terms with their weight, and the sentence that a verdict shows."""
    lines = []
    for weight in weights:
        said = f": {weight.say}" if weight.say and weight.say != "{text}" else ""
        lines.append(f"  - `{weight.see.text}` ({sign}{weight.score:g}){said}\n")
    return "".join(lines)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def main() -> int:
    """Write the page; returns the exit code."""
    TARGET.write_text(causes_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

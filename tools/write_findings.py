"""Writes docs/findings.md from the signatures, derivations and live kinds: every word that a cause rule can use."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from fault_attribution.derive.derived_kinds import DERIVED_KINDS
from fault_attribution.live_kinds import CONDITION_KINDS, LIVE_KINDS
from fault_attribution.loading.rule_files import load_rules
from fault_attribution.matching.error_look import FRAME, LOOKS
from fault_attribution.signature import Signature

TARGET = Path(__file__).resolve().parent.parent / "docs" / "findings.md"
EXAMPLE_CHARS_MAX = 110

HEAD = """# Findings

Every kind of finding: what a line, an agent or other findings can tell, and the words of [cause rules](rules.md). From
the signatures in `libs/fault-attribution/src/fault_attribution/rules/signatures/`, the derivations beside them, and
what is seen live. Written by `tools/write_findings.py`; do not edit. `phalanx rules explain KIND` says which rules use
a kind, and by how much.

Roles: `cause` may be the root cause by itself; `symptom` failed and may follow from something else; `victim` says that
another one failed; `benign` looks bad and is harmless; `context` is neutral; `progress`: work goes on; `unrecognised`
looks like an error that no signature knows.
"""
ESCAPED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "`": "&#96;", "*": "&#42;", "[": "&#91;", "_": "&#95;"}
)
DERIVED = "From all findings of an incident, by the code in `libs/fault-attribution/src/fault_attribution/derive/`."


def findings_page(signatures: tuple[Signature, ...] | None = None) -> str:
    """The whole page."""
    known = (*(load_rules().signatures if signatures is None else signatures), LOOKS, FRAME)
    by_kind: dict[str, list[Signature]] = defaultdict(list)
    for each in known:
        by_kind[each.kind].append(each)
    rows = [row for kind in sorted(by_kind) for row in _rows(kind, by_kind[kind])]
    parts = [
        HEAD,
        f"## From lines\n\n{len(known)} signatures find {len(by_kind)} kinds.\n",
        "| kind | role | meaning | a line, shortened | signature |\n|---|---|---|---|---|",
        *rows,
        f"\n## Derived\n\n{DERIVED}\n",
        *_table(DERIVED_KINDS),
        "\n## Seen live\n\nBy agents and by the judge.\n",
        *_table(LIVE_KINDS),
        "\nBeside these the check of every condition of a node is a kind: "
        + ", ".join(f"`{kind}`" for kind in sorted(CONDITION_KINDS))
        + ". See [health](health.md), [kernel log](kernel-log.md), [NVML](nvml.md) and [Xids](xids.md).\n",
    ]
    return "\n".join(parts)


def _rows(kind: str, signatures: list[Signature]) -> list[str]:
    return [
        f"| `{kind}` | {each.role} | {_cell(each.meaning)} | {_code(each)} | `{each.signature_id}` |"
        for each in sorted(signatures, key=lambda one: one.signature_id)
    ]


def _table(kinds: dict[str, str]) -> list[str]:
    rows = [f"| `{kind}` | {_cell(meaning)} |" for kind, meaning in sorted(kinds.items())]
    return ["| kind | meaning |", "|---|---|", *rows]


def _code(signature: Signature) -> str:
    if not signature.matches:
        return ""
    text = " ".join("".join(each if each.isprintable() else " " for each in signature.matches[0].line).split())
    if len(text) > EXAMPLE_CHARS_MAX:
        text = text[: EXAMPLE_CHARS_MAX - 1] + "…"
    return f"<code>{_cell(text)}</code>"


def _cell(text: str) -> str:
    """Text that a table of Markdown shows as it is."""
    return text.translate(ESCAPED)


def main() -> int:
    """Write the page; returns the exit code."""
    TARGET.write_text(findings_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

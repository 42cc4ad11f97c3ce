"""Writes docs/xids.md from the policy's YAML: what each code of the NVIDIA driver is, and what Phalanx does and why."""

from __future__ import annotations

import sys
from pathlib import Path

from health_ingest.adapters.xid_policy_yaml import load_xid_policy
from health_ingest.domain.ruling import Clears
from health_ingest.domain.seen import Distinct, Same
from health_ingest.domain.xid_rows import Judgement, Repeat, XidPolicy, XidRow

TARGET = Path(__file__).resolve().parent.parent / "docs" / "xids.md"

HEAD = """# Xids and SXids

What each code of the NVIDIA driver is, whose fault it is first, and what Phalanx does about it. Written by
`tools/write_xids.py` from `xid.yaml`, `sxid.yaml` and `nvlink5.yaml` in
`services/health-ingest/src/health_ingest/policies/`; do not edit. A code that is not here is recorded and shown, and
evicts nothing.

- **Weight.** `record`: shown and counted. `problem`: no new work on the node while it lasts. `failure`: acted on now.
- **Whose fault first.** A prior for one signal that nothing else supports; the classifier judges with what the job
  says.
- **The driver's own wish wins.** Xid 154 and NVML's field 230 replace the action of a row; 154 to None ends what a
  reset clears.
- **Repeats.** Signals nearer than three minutes are one burst. A job counts once however often it fails; a signal that
  no job is known of counts for none.
- **Consequences** (sympathetic) are never a root cause and never a failure.

"""

NVLINK5 = """intrInfo has one layout before driver R575 and another from it on. Without the driver's version both
readings are shown and nothing is done.
"""


def xids_page(policy: XidPolicy | None = None) -> str:
    """The whole page."""
    known = load_xid_policy() if policy is None else policy
    wishes = [
        f"| {wish.value} | `{wish.slug}` | {wish.driver_text} | {_does(wish.judgement)} |"
        for wish in known.wishes.values()
    ]
    xids = [_xid(row) for _, row in sorted(known.xids.items())]
    sxids = [
        f"| {row.code} | {row.name} | {row.judgement.origin} | {_does(row.judgement)} | {row.why} | {row.source} |"
        for _, row in sorted(known.sxids.items())
    ]
    nvlink5 = [
        f"| `{rule.rule_id}` | {' / '.join(rule.units)} | {_words(rule.v1.value)} | {_words(rule.v2.value)} | "
        f"{', '.join(map(_words, rule.statuses)) or 'any'} | {rule.judgement.origin} | {_does(rule.judgement)} | "
        f"{rule.source} |"
        for rule in known.nvlink5
    ]
    return HEAD + "\n".join(
        [
            "## The driver's wish (Xid 154, NVML field 230)\n",
            *_table("value", "name", "text", "what Phalanx does"),
            *wishes,
            "\n## Xids\n",
            *_table("Xid", "name", "whose fault first", "what Phalanx does", "why", "source"),
            *xids,
            "\n## NVLink 5: words of Xids 144 to 150\n",
            NVLINK5,
            *_table(
                "row", "unit", "intrInfo, before R575", "from R575", "errorStatus", "whose fault first",
                "what Phalanx does", "source",
            ),
            *nvlink5,
            "\n## SXids (NVSwitch up to Hopper)\n",
            *_table("SXid", "name", "whose fault first", "what Phalanx does", "why", "source"),
            *sxids,
        ]
    ) + "\n"  # fmt: skip


def _table(*heads: str) -> tuple[str, str]:
    return "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"


def _xid(row: XidRow) -> str:
    does = [_does(row.judgement)]
    if row.clears is Clears.RESET and row.judgement.weight != "record":
        does.append("until a reset")
    does += [f"{_does(detail.becomes)} if the line says {detail.attribute}={detail.equals}" for detail in row.details]
    does += [f"{_does(each.becomes)} within {_span(each.within_s)} of {each.check}" for each in row.companions]
    does += [f"bits of its registers decide ({len(row.bits)} rules)"] if row.bits else []
    does += [_repeat(repeat) for repeat in row.repeats]
    does += [f"ends Xid {row.cancels}"] if row.cancels is not None else []
    name = f"**{row.name}**: {row.meaning}"
    return f"| {row.code} | {name} | {row.judgement.origin} | {'; '.join(does)} | {row.why} | {row.source} |"


def _does(judgement: Judgement) -> str:
    action = judgement.action.replace("_", " ")
    told = f"{judgement.weight}, {action}" if action != "wait or ignore" else str(judgement.weight)
    return f"{told}, a consequence" if judgement.sympathetic else told


def _repeat(repeat: Repeat) -> str:
    what = {Distinct.JOBS: "different jobs", Distinct.ANY: "bursts"}[repeat.distinct]
    where = {Same.GPU: "one GPU", Same.SM: "one SM"}[repeat.same]
    return (
        f"{repeat.count} {what} on {where} within {_span(repeat.within_s)}: {repeat.becomes.origin}, "
        f"{_does(repeat.becomes)}"
    )


def _span(seconds: float) -> str:
    days, minutes = seconds / 86_400, seconds / 60
    return f"{days:g} days" if days > 1 else "a day" if days == 1 else f"{minutes:g} minutes"


def _words(word: int) -> str:
    return f"`0x{word:08x}`"


def main() -> int:
    """Write the page; returns the exit code."""
    TARGET.write_text(xids_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The drills' rows (JSON lines) as a Markdown table: `drill_table.py FILE`."""

import json
import sys
from pathlib import Path

COUNTED = ("restarts", "checkpoints told", "acknowledged", "longest publish", "journal", "whole drill")


def main() -> None:
    """Print it; nothing for an empty file."""
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    if not rows:
        return
    head = ("drill", "measured", *COUNTED)
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        measured = "; ".join(f"{name} {value}" for name, value in row.items() if name not in ("drill", *COUNTED))
        print("| " + " | ".join([row["drill"], measured, *(row[name] for name in COUNTED)]) + " |")


main()

"""Entries of the bad-hardware ledger as text for a terminal."""

from __future__ import annotations

from typing import Any

from phalanx_cli.commands.job_view import table

REASON_SHOWN = 80
"""Characters in the list; `show` has all."""


def list_lines(entries: list[dict[str, Any]]) -> list[str]:
    """One line a device."""
    if not entries:
        return ["the ledger is empty: nothing is held against any device"]
    rows = [
        (
            entry["device_id"],
            entry["hold"],
            entry["node_id"],
            entry["strikes_total"],
            f"{entry['score']:.1f}",
            _short_time(entry["until"]) if entry["hold"] != "free" else "-",
            entry["by"] or "-",
            _why(entry)[:REASON_SHOWN],
        )
        for entry in entries
    ]
    head = ("DEVICE", "HOLD", "NODE", "STRIKES", "SCORE", "UNTIL", "BY", "REASON")
    return list(table(head, rows))


def entry_lines(entry: dict[str, Any]) -> list[str]:
    """All that is known of one."""
    held = entry["hold"]
    if held != "free":
        held += f" since {_short_time(entry['since'])}, until {_short_time(entry['until'])}, by {entry['by']}"
    lines = [
        f"device    {entry['device_id']} ({entry['kind']}{' ' + entry['name'] if entry['name'] else ''})",
        f"hold      {held}",
        f"reason    {_why(entry) or '-'}",
        f"node      {entry['node_id']}",
        f"board     {entry['board_serial'] or 'unknown'} ({entry['pci_vendor_data'] or 'vendor data unknown'})",
        f"strikes   {entry['strikes_total']}, of which {entry['score']:.1f} still count",
    ]
    if entry["other_ids"]:
        lines.append(f"also as   {', '.join(entry['other_ids'])}")
    lines += [
        f"  {_short_time(blow['struck_at'])}  {blow['node_id']}  {blow['check']}  {blow['reason']}"
        for blow in reversed(entry["strikes"])
    ]
    return lines


def _why(entry: dict[str, Any]) -> str:
    if entry["reason"] is not None and entry["hold"] != "free":
        return str(entry["reason"]["sentence"])
    return str(entry["strikes"][-1]["reason"]) if entry["strikes"] else ""


def _short_time(text: str | None) -> str:
    return "released" if text is None else text[:16].replace("T", " ")

"""What is done about nodes, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phalanx_cli.commands.job_view import table
from phalanx_cli.commands.node_view import age

WHY_SHOWN = 90
_BREAKER = {
    "open": "no node is taken out of use",
    "half_open": "one node is out on trial, and no other is taken",
}


def care_lines(care: dict[str, Any]) -> Iterator[str]:
    """The breaker, where it is not closed, and every node that something is done about."""
    yield from breaker_lines(care)
    rows = [
        (
            one["node_id"],
            one["phase"],
            one.get("rung") or "-",
            _since(one),
            one.get("by", "?"),
            _short(one.get("why", "")),
            _short(one.get("next", "")),
        )
        for one in care["nodes"].values()
        if one["phase"] != "ok"
    ]
    if rows:
        yield ""
        yield from table(("NODE", "CARE", "RUNG", "SINCE", "BY", "WHY", "NEXT"), rows)


def breaker_lines(care: dict[str, Any]) -> Iterator[str]:
    """Loud where it is open; nothing where it is not."""
    if care.get("problem"):
        yield str(care["problem"])
    breaker = care["breaker"]
    if breaker is None or breaker["state"] == "closed":
        return
    trial = f" ({breaker['trial']})" if breaker["trial"] else ""
    said = f"{_BREAKER.get(breaker['state'], breaker['state'])}{trial}"
    yield f"!! the breaker is {breaker['state'].replace('_', ' ')} for {_since(breaker)}: {said}; {breaker['why']}"


def one_lines(one: dict[str, Any]) -> Iterator[str]:
    """The care of one node, whole."""
    if one["phase"] == "ok":
        return
    rung = f", {one['rung']}" if one.get("rung") else ""
    yield f"care: {one['phase']}{rung} for {_since(one)}, by {one.get('by', '?')}: {one.get('why', '')}"
    if one.get("next"):
        until = f" (looked at again by {one['until']})" if one.get("until") else ""
        yield f"next: {one['next']}{until}"


def _since(one: dict[str, Any]) -> str:
    return "?" if one.get("since_s") is None else age(one["since_s"])


def _short(text: str) -> str:
    return text if len(text) <= WHY_SHOWN else f"{text[: WHY_SHOWN - 3]}..."

"""One node, or a list of them, as lines for a terminal; and what it comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from phalanx_cli.commands.job_view import table

OK, BAD, UNKNOWN = "ok", "bad", "unknown"
PROCESS = "process"
EXIT_OK, EXIT_BAD, EXIT_UNKNOWN = 0, 1, 3
DETAIL_SHOWN = 100
ID_SHOWN = 44
"""A GPU's uuid has 40 characters."""
ROWS_SHOWN = 2_000


def verdict(view: dict[str, Any]) -> str:
    """What the node comes to: bad where anything is, or a condition is open; unknown where anything is, or no answer.

    Conditions of processes are shown and not counted: a script that fails is not the machine's fault.
    """
    healths = {row.get("health") for row in _rows(view)}
    if BAD in healths or any(condition["component"] != PROCESS for condition in view["conditions"]):
        return BAD
    if not view["answers"] or UNKNOWN in healths or view["problems"]:
        return UNKNOWN
    return OK


def exit_code(views: Sequence[dict[str, Any]]) -> int:
    """Of all: the worst."""
    verdicts = {verdict(view) for view in views}
    return EXIT_BAD if BAD in verdicts else EXIT_UNKNOWN if UNKNOWN in verdicts or not views else EXIT_OK


def node_lines(view: dict[str, Any]) -> Iterator[str]:
    """Everything about one node, the worst first."""
    counts = Counter(row.get("health") for row in _rows(view))
    told = f"{counts[BAD]} bad, {counts[UNKNOWN]} unknown, {counts[OK]} ok" if view["answers"] else "nothing is known"
    yield f"node {view['node_id']}: {verdict(view)} ({told})"
    host = view["host"]
    if host is None:
        yield f"{view['silence']}: everything that it watches is unknown"
    else:
        uptime = "unknown" if host.get("uptime_s") is None else age(host["uptime_s"])
        yield f"machine {host.get('host', '?')}, up {uptime}, boot {host.get('boot_id') or 'unknown'}"
        if host.get("cut"):
            yield f"{host['cut']} rows did not fit into the answer"
        if host.get("events_dropped"):
            yield f"{host['events_dropped']} events were lost: they came faster than they could be stored"
    yield from view["problems"]
    if view["conditions"]:
        yield ""
        yield from _condition_table(view["conditions"])
    if host is not None:
        yield ""
        yield from _row_table(_rows(view))
        yield ""
        yield from _watch_table(host.get("collectors", []))


def list_lines(views: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One line a node."""
    if not views:
        yield "no node has a host role; start one on each machine: phalanx host"
        return
    rows = []
    for view in views:
        counts = Counter(row.get("health") for row in _rows(view))
        worst = next((row for row in _rows(view) if row.get("health") == BAD), None)
        what = view["conditions"][0] if view["conditions"] else worst
        shown = f"{what['check']} {what['component_id']}".strip() if what else view["silence"]
        numbers = (counts[BAD], counts[UNKNOWN], counts[OK]) if view["answers"] else ("?", "?", "?")
        rows.append((view["node_id"], verdict(view), *numbers, len(view["conditions"]), shown[:DETAIL_SHOWN]))
    yield from table(("NODE", "HEALTH", "BAD", "UNKNOWN", "OK", "CONDITIONS", "WORST"), rows)


def age(seconds: float) -> str:
    """Two units at most: `3 s`, `4 min`, `2 h 5 min`, `3 d 1 h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def _rows(view: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if view["host"] is None else [row for row in view["host"]["rows"] if isinstance(row, dict)]


def _name(row: dict[str, Any]) -> str:
    """What tells it from others of its kind: eight GPUs of a machine are of one model."""
    component_id = str(row.get("component_id", ""))
    if row.get("component") == "gpu":
        return component_id
    return str(row.get("attributes", {}).get("name") or component_id)


def _row_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    lines = []
    for row in rows[:ROWS_SHOWN]:
        marks = [f"x{row['count']}"] if row.get("count", 1) > 1 else []
        marks += ["event"] if row.get("event") else []
        marks += ["before the agent's start"] if row.get("old") else []
        detail = _short(str(row.get("detail", "")), DETAIL_SHOWN) + (f" ({', '.join(marks)})" if marks else "")
        what = f"{row.get('component', '')} {_short(_name(row), ID_SHOWN)}".strip()
        known = (
            row.get("health", UNKNOWN),
            what,
            row.get("check", "?"),
            age(row.get("age_s", 0)),
            row.get("source", "?"),
        )
        lines.append((*known, detail))
    yield from table(("HEALTH", "WHAT", "CHECK", "AGE", "SOURCE", "DETAIL"), lines)
    if len(rows) > ROWS_SHOWN:
        yield f"... and {len(rows) - ROWS_SHOWN} more rows; --json has all"


def _condition_table(conditions: list[dict[str, Any]]) -> Iterator[str]:
    lines = [
        (
            one["tier"],
            f"{one['component']} {_short(one['component_id'], ID_SHOWN)}".strip(),
            one["check"],
            "?" if one["age_s"] is None else age(one["age_s"]),
            one["count"],
            _short(one["reason"], DETAIL_SHOWN),
        )
        for one in conditions
    ]
    yield from table(("CONDITION", "WHAT", "CHECK", "OPEN FOR", "SIGNALS", "REASON"), lines)


def _watch_table(watches: list[dict[str, Any]]) -> Iterator[str]:
    lines = [
        (
            watch.get("name", "?"),
            watch.get("state", "?"),
            "never" if watch.get("age_s") is None else f"{age(watch['age_s'])} ago",
            f"{watch.get('took_s', 0) * 1_000:.0f} ms",
            _short(str(watch.get("problem", "")), DETAIL_SHOWN),
        )
        for watch in watches
    ]
    yield from table(("COLLECTOR", "STATE", "ANSWERED", "TOOK", "PROBLEM"), lines)


def _short(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else f"{text[: length_max - 3]}..."

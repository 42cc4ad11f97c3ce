"""Results for people: policies side by side, what time was lost to, and by which cause."""

from __future__ import annotations

from typing import Any

_LOST = {
    "detect": "detect",
    "restart": "restart",
    "wait": "wait",
    "blind": "blind",
    "person": "person",
    "smaller": "smaller",
    "lost_work": "lost work",
    "checkpoint": "checkpoint",
}


def compared(result: dict[str, Any]) -> str:
    """The table of `--compare`."""
    cluster = result["cluster"]
    first, last = result["seeds"]
    head = (
        f"{cluster['nodes']} nodes train, {cluster['spares']} stand by, {cluster['days']:g} days; "
        f"seeds {first} to {last}; mean, ± half of the 95 % interval"
    )
    rows = [
        [
            "policy",
            "ETTR %",
            "stops",
            "restarts",
            "swaps",
            "persons",
            "node-days lost",
            "away max",
            "re-fault 7 d %",
            "listed",
        ]
    ]
    lost = [["lost, % of time", *_LOST.values()]]
    for policy in result["policies"]:
        said = policy["result"]
        rows.append(
            [
                policy["name"],
                _mean(said["ettr"], 100, 2),
                _mean(said["interruptions"], 1, 0),
                _mean(said["restarts"], 1, 0),
                _mean(said["swaps"], 1, 0),
                _mean(said["persons"], 1, 1),
                _mean(said["node_days_lost"], 1, 0),
                _mean(said["out_max"], 1, 1),
                _mean(said["refault_share"], 100, 1),
                _mean(said["listed"], 1, 0),
            ]
        )
        lost.append([policy["name"], *(f"{said['lost_share'][name] * 100:.3f}" for name in _LOST)])
    return "\n\n".join((head, _aligned(rows), _aligned(lost)))


def by_cause(result: dict[str, Any], name: str) -> str:
    """What each cause cost under one policy, the dearest first."""
    said = next(policy["result"] for policy in result["policies"] if policy["name"] == name)
    span_s = result["cluster"]["days"] * 86_400
    rows = [[f"cause ({name})", "stops", "lost % of time", "node-days"]]
    causes = sorted(said["causes"].items(), key=lambda item: (-item[1]["lost_s"], item[0]))
    rows += [
        [cause, f"{cost['faults']:.1f}", f"{cost['lost_s'] / span_s * 100:.3f}", f"{cost['node_days']:.1f}"]
        for cause, cost in causes
    ]
    return _aligned(rows)


def gates(rows: list[tuple[float, dict[str, Any]]]) -> str:
    """What if the gate finds less?"""
    table = [["gate finds", "ETTR %", "re-fault 7 d %", "node-days lost"]]
    table += [
        [
            f"{power:.0%}",
            _mean(said["ettr"], 100, 2),
            _mean(said["refault_share"], 100, 1),
            _mean(said["node_days_lost"], 1, 0),
        ]
        for power, said in rows
    ]
    return _aligned(table)


def _mean(figure: dict[str, Any], factor: float, digits: int) -> str:
    half = figure["half95"]
    text = f"{figure['mean'] * factor:.{digits}f}"
    return text if half is None else f"{text} ±{half * factor:.{digits}f}"


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )

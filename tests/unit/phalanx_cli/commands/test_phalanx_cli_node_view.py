"""What `phalanx node` and `phalanx nodes` say, and the exit code it comes to."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx_cli.commands.node_view import age, exit_code, list_lines, node_lines, verdict


def row(check: str, health: str, **more: Any) -> dict[str, Any]:
    known = {"component": "gpu", "component_id": "GPU-1", "detail": "87 C", "age_s": 4.0, "source": "nvml"}
    return {**known, "check": check, "health": health, "count": 1, "attributes": {}, **more}


def view(*rows: dict[str, Any], answers: bool = True, conditions: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    watch = {"name": "nvml", "state": "working", "age_s": 4.0, "took_s": 0.1, "problem": ""}
    host = {"host": "h", "uptime_s": 7_500, "boot_id": "b1", "rows": list(rows), "collectors": [watch], "cut": 0}
    return {
        "node_id": "n1",
        "answers": answers,
        "silence": "" if answers else "no host role listens under this name",
        "host": host if answers else None,
        "conditions": list(conditions),
        "problems": [],
    }


CONDITION = {
    "component": "gpu",
    "component_id": "GPU-1",
    "check": "xid_79",
    "tier": "failure",
    "reason": "fell off the bus",
    "count": 2,
    "age_s": 65.0,
    "condition_id": "c1",
}


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (view(row("a", "ok")), "ok"),
        (view(row("a", "ok"), row("b", "unknown")), "unknown"),
        (view(row("a", "unknown"), row("b", "bad")), "bad"),
        (view(answers=False), "unknown"),
        (view(answers=False, conditions=(CONDITION,)), "bad"),
        (view(row("a", "ok"), conditions=(CONDITION,)), "bad"),
        (view(row("a", "ok"), conditions=({**CONDITION, "component": "process"},)), "ok"),
        ({**view(row("a", "ok")), "problems": ["the conditions cannot be read"]}, "unknown"),
    ],
)
def test_a_node_is_as_bad_as_its_worst(seen: dict[str, Any], wanted: str) -> None:
    assert verdict(seen) == wanted


def test_the_exit_code_is_the_worst_of_all() -> None:
    ok, bad, silent = view(row("a", "ok")), view(row("a", "bad")), view(answers=False)
    assert [exit_code([ok]), exit_code([ok, silent]), exit_code([silent, bad]), exit_code([])] == [0, 3, 1, 3]


def test_every_row_is_shown_with_age_and_source() -> None:
    text = "\n".join(node_lines(view(row("gpu_temperature", "bad", count=3, event=True), row("b", "ok"))))
    assert "node n1: bad (1 bad, 0 unknown, 1 ok)" in text
    assert "machine h, up 2 h 5 min, boot b1" in text
    assert "bad     gpu GPU-1  gpu_temperature  4 s  nvml    87 C (x3, event)" in text
    assert "nvml       working  4 s ago   100 ms" in text


def test_no_answer_is_said_and_what_is_held_against_the_node_is_shown() -> None:
    text = "\n".join(node_lines(view(answers=False, conditions=(CONDITION,))))
    assert "node n1: bad (nothing is known)" in text
    assert "no host role listens under this name: everything that it watches is unknown" in text
    assert "failure    gpu GPU-1  xid_79  1 min     2        fell off the bus" in text


def test_the_list_has_one_line_a_node() -> None:
    head, first, second = list_lines([view(row("gpu_lost", "bad")), view(answers=False)])
    assert head.split() == ["NODE", "HEALTH", "BAD", "UNKNOWN", "OK", "CONDITIONS", "WORST"]
    assert first.split() == ["n1", "bad", "1", "0", "0", "0", "gpu_lost", "GPU-1"]
    assert second.split()[:6] == ["n1", "unknown", "?", "?", "?", "0"]
    assert list(list_lines([])) == ["no node has a host role; start one on each machine: phalanx host"]


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min"), (3_599, "59 min"), (7_500, "2 h 5 min"), (90_000, "1 d 1 h")],
)
def test_ages_are_short(seconds: float, wanted: str) -> None:
    assert age(seconds) == wanted

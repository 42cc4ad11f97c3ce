"""What is done about nodes, for a person: why, what comes next, and an open breaker that nobody can overlook."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fault_contracts.payload import Reason
from fault_contracts.remediation import NodePhase, Rung
from phalanx_cli.commands.care_question import care_view
from phalanx_cli.commands.care_view import breaker_lines, care_lines, one_lines
from recovery_planner.domain.node_tend import new_life

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def view(phase: NodePhase = NodePhase.DRAINING, **fields: Any) -> dict[str, Any]:
    life = replace(
        new_life("n1", NOON),
        phase=phase,
        rung=Rung.RESET_GPU,
        reason=Reason(rule_id="x", sentence="a GPU failed"),
        **fields,
    )
    return care_view(life, NOON + timedelta(minutes=5))


def care(*views: dict[str, Any], breaker: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"nodes": {each["node_id"]: each for each in views}, "breaker": breaker, "problem": ""}


OPEN = {"state": "open", "since_s": 60.0, "trial": "", "why": "2 of 20 nodes are out of use, and 2 may be at a time"}


def test_a_node_is_shown_with_why_and_what_comes_next() -> None:
    text = "\n".join(care_lines(care(view())))
    for part in ("n1", "draining", "reset_gpu", "5 min", "recovery-planner", "a GPU failed", "the ladder begins"):
        assert part in text


def test_a_node_that_is_well_is_not_shown() -> None:
    assert list(care_lines(care(view(NodePhase.OK)))) == []
    assert list(one_lines(view(NodePhase.OK))) == []


def test_an_open_breaker_is_loud() -> None:
    (line,) = breaker_lines(care(breaker=OPEN))
    assert line.startswith("!! the breaker is open for 1 min: no node is taken out of use; 2 of 20")


def test_a_trial_is_named_and_a_closed_breaker_is_silent() -> None:
    (line,) = breaker_lines(care(breaker={**OPEN, "state": "half_open", "trial": "n7"}))
    assert "half open" in line
    assert "(n7)" in line
    assert list(breaker_lines(care(breaker={**OPEN, "state": "closed"}))) == []
    assert list(breaker_lines(care())) == []


def test_one_node_says_until_when() -> None:
    until = NOON + timedelta(days=7)
    first, second = one_lines(view(NodePhase.PROBATION, probation_until=until))
    assert "probation, reset_gpu for 5 min" in first
    assert "2030-01-08" in second


def test_what_cannot_be_read_is_said() -> None:
    assert list(care_lines({"nodes": {}, "breaker": None, "problem": "it cannot be read"})) == ["it cannot be read"]

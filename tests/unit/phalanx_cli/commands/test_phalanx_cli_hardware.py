"""`phalanx hardware`: times, names and what a person reads."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from fault_contracts.hardware import Hold, LedgerEntry, Strike
from fault_contracts.payload import Reason
from phalanx_cli.commands.app import app
from phalanx_cli.commands.bus_question import who
from phalanx_cli.commands.hardware import BadSpan, until_of
from phalanx_cli.commands.hardware_view import entry_lines, list_lines

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def entry(hold: Hold = Hold.QUARANTINED) -> dict[str, Any]:
    blow = Strike(evidence_id="c", node_id="a", check="xid_79", reason="fell off the bus", struck_at=NOON)
    return LedgerEntry(
        device_id="GPU-1",
        node_id="a",
        hold=hold,
        reason=Reason(rule_id="ledger.replace", sentence="the policy asks to replace it"),
        by="health-ingest",
        since=NOON,
        score=1.04,
        strikes_total=1,
        strikes=(blow,),
    ).model_dump(mode="json")


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("12h", NOON + timedelta(hours=12)),
        ("3d", NOON + timedelta(days=3)),
        ("2w", NOON + timedelta(weeks=2)),
        ("2030-02-01T00:00:00+00:00", datetime(2030, 2, 1, tzinfo=UTC)),
    ],
)
def test_an_end_is_a_span_or_a_time(text: str, end: datetime) -> None:
    assert until_of(text, NOON) == end


@pytest.mark.parametrize("text", ["soon", "3 days", "2029-01-01T00:00:00+00:00"])
def test_an_end_that_is_neither_or_over_is_refused(text: str) -> None:
    with pytest.raises(BadSpan):
        until_of(text, NOON)


def test_a_bad_end_is_wrong_usage() -> None:
    ran = CliRunner().invoke(app, ["hardware", "quarantine", "GPU-1", "--reason", "x", "--until", "soon"])
    assert ran.exit_code == 2
    assert "soon" in ran.output


def test_a_change_needs_a_reason() -> None:
    assert CliRunner().invoke(app, ["hardware", "release", "GPU-1"]).exit_code == 2


def test_the_list_says_what_is_held_and_why_and_an_empty_one_says_so() -> None:
    head, line = list_lines([entry()])
    assert head.split() == ["DEVICE", "HOLD", "NODE", "STRIKES", "SCORE", "UNTIL", "BY", "REASON"]
    assert line.split()[:6] == ["GPU-1", "quarantined", "a", "1", "1.0", "released"]
    assert line.endswith("the policy asks to replace it")
    assert "empty" in list_lines([])[0]
    [_, free] = list_lines([entry(Hold.FREE)])
    assert free.endswith("fell off the bus"), "what is not held shows its last strike"


def test_one_device_is_shown_with_its_strikes() -> None:
    text = "\n".join(entry_lines(entry()))
    assert "quarantined since 2030-01-01 12:00, until released, by health-ingest" in text
    assert "2030-01-01 12:00  a  xid_79  fell off the bus" in text


def test_whoever_runs_it_is_named() -> None:
    assert "@" in who()

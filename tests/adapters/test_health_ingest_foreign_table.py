"""The table of other systems' words: the built-in one is sound, and a bad file of the operator is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from health_ingest.adapters.foreign_table import SOURCES, load_foreign_table
from health_ingest.domain.foreign import CHECK, Outcome, Told, understand


def test_every_row_of_the_built_in_table_has_a_reason_and_a_reference() -> None:
    table = load_foreign_table()
    assert set(table.sources) == set(SOURCES)
    for source in table.sources.values():
        assert source.node
        for row in source.rows:
            assert row.why
            assert row.reference
            assert "{" in row.check or CHECK.fullmatch(row.check)


def test_an_operators_rows_places_and_names_come_first(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        """
nodes: {i-0abc: gpu-07}
sources:
  alertmanager:
    node: [labels.machine]
    states: {firing: unknown}
    rows:
      - {names: [NodeClock*], check: foreign_mine, component: host, why: mine, reference: own}
"""
    )
    table = load_foreign_table(own)
    fields = {"labels.machine": "i-0abc", "labels.node": "other"}
    told = Told(source="alertmanager", name="NodeClockSkewDetected", state="firing", fields=fields, thread=("f",))
    found = understand(told, table)
    assert (found.outcome, found.check, found.node_id, found.health) == (
        Outcome.ACCEPTED,
        "foreign_mine",
        "gpu-07",
        "unknown",
    )


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("nodes: [", "own.yaml"),
        ("sources: {pagerduty: {}}", "'pagerduty' is not one of"),
        ("sources: {alertmanager: {rows: [{names: [x]}]}}", "at sources.alertmanager.rows.0.check"),
        ("sources: {alertmanager: {states: {firing: sick}}}", "at sources.alertmanager.states.firing"),
        ("source: {}", "at source: Extra inputs"),
        ("- a list", "own.yaml"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_place(tmp_path: Path, text: str, wrong: str) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(text)
    with pytest.raises(ValueError, match=wrong):
        load_foreign_table(own)


def test_a_missing_or_huge_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_foreign_table(tmp_path / "none.yaml")
    huge = tmp_path / "huge.yaml"
    huge.write_text("#" * 4_000_001)
    with pytest.raises(ValueError, match="larger than"):
        load_foreign_table(huge)

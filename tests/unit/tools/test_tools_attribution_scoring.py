"""How verdicts on labelled incidents become figures."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from attribution_bench.incidents import IncidentsRefused, Truth, as_lines, as_yaml, read_evidence, read_truths
from attribution_bench.report import confusion_lines, miss_lines, split_lines
from attribution_bench.scoring import Outcome, Verdict, figures, lost, not_reached, splits

HEADER = "incident attribution also_attribution action also_action cause confidence basis tricky benign source why"
TITLES = HEADER.replace(" ", "\t") + "\n"


def outcome(true: str, said: str, *, also: str = "", action: str = "restart_job", benign: bool = False) -> Outcome:
    return Outcome(
        truth=Truth(
            incident="i1", attributions=(true, *([also] if also else [])), actions=("restart_job",), cause="a",
            basis="source_log", tricky=False, benign=benign,
        ),
        verdict=Verdict(attribution=said, cause="a", action=action, confidence=0.9),
    )  # fmt: skip


def test_macro_f1_is_the_mean_over_classes_and_unknown_counts_as_wrong() -> None:
    found = figures([outcome("user", "user"), outcome("user", "unknown"), outcome("driver", "driver")])
    # user: precision 1, recall 1/2, F1 2/3; driver: 1. Nothing else is true or said, so nothing else is averaged.
    assert found.macro_f1 == pytest.approx((2 / 3 + 1) / 2)
    assert found.unknown == pytest.approx(1 / 3)
    assert found.confusion["user"] == {"user": 1, "unknown": 1}


def test_a_class_that_is_only_said_counts_with_an_f1_of_nothing() -> None:
    assert figures([outcome("user", "user"), outcome("user", "hardware")]).macro_f1 == pytest.approx(1 / 3)


def test_an_equally_defensible_answer_is_booked_on_the_class_it_names() -> None:
    found = figures([outcome("user", "platform", also="platform"), outcome("user", "driver", also="platform")])
    assert found.classes["platform"].f1 == 1.0
    assert found.confusion["user"] == {"driver": 1}


def test_benign_incidents_count_for_the_action_only() -> None:
    found = figures(
        [outcome("hardware", "user", benign=True), outcome("user", "user", action="dont_retry_notify_user")]
    )
    assert (found.attributed, found.macro_f1, found.action) == (1, 1.0, 0.5)


def test_a_node_action_on_a_user_fault_is_counted_even_when_the_verdict_names_somebody_else() -> None:
    found = figures(
        [outcome("user", "hardware", action="replace_node"), outcome("driver", "driver", action="reboot_node")]
    )
    assert found.nodes_on_user_faults == 1
    assert any("node action" in line for line in not_reached(found))


def test_what_is_promised_is_told_apart_from_what_is_reached() -> None:
    right = figures([outcome(name, name) for name in ("user", "driver", "platform", "hardware")])
    assert not_reached(right) == []
    wrong = figures([outcome("user", "unknown", action="wait_or_ignore")])
    assert len(not_reached(wrong)) == 2


def test_what_a_variant_loses_is_the_median_over_its_seeds() -> None:
    base = figures([outcome("user", "user")])
    bad = figures([outcome("user", "unknown", action="replace_node")])
    assert lost(base, [bad, base, base]) == (0.0, 0.0)
    assert lost(base, [bad, bad, base]) == (1.0, 1.0)


def test_the_tables_name_what_is_wrong() -> None:
    outcomes = [outcome("user", "hardware", action="replace_node"), outcome("driver", "driver")]
    (line,) = miss_lines(outcomes)
    assert line.startswith("i1: NODE want user")
    assert "got hardware" in line
    assert len(confusion_lines(figures(outcomes))) == 5
    assert split_lines(splits(outcomes))[1].startswith("all")


def test_an_incident_is_written_as_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "i1.yaml"
    path.write_text("evidence:\n- {source: kmsg, node: n1, offset_s: 3, line: 'a: [b]'}\n- {source: what, line: 12}\n")
    events = read_evidence(path)
    path.write_text(as_yaml(events, "i1"))
    assert read_evidence(path) == events
    lines = as_lines(events, "i1")
    assert [(each.text, each.node, each.source) for each in lines] == [
        ("a: [b]", "n1", "kmsg"),
        ("12", "", "unknown"),
    ]


BAD = ("evidence: 3", "[]", "evidence: [{line: x}]", "evidence: [", "evidence: [{source: a, line: b, rank: x}]")


@pytest.mark.parametrize("text", BAD)
def test_a_file_that_is_no_incident_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "i1.yaml"
    path.write_text(text)
    with pytest.raises(IncidentsRefused, match=r"i1\.yaml"):
        read_evidence(path)


def test_truths_are_read_with_their_alternatives_and_a_bad_row_is_named(tmp_path: Path) -> None:
    row = 'i1\tdriver\tplatform|user\treset_gpu\treboot_node\tx\thigh\tsource_log\ttrue\tfalse\tsomewhere\tsaid "so'
    (tmp_path / "truth.tsv").write_text(TITLES + f"{row}\n")
    truth = read_truths(tmp_path)["i1"]
    assert truth.attributions == ("driver", "platform", "user")
    assert truth.actions == ("reset_gpu", "reboot_node")
    assert truth.tricky
    assert not truth.benign
    (tmp_path / "truth.tsv").write_text(TITLES + f"{row.replace('true', 'maybe')}\n")
    with pytest.raises(IncidentsRefused, match=r"truth\.tsv:2"):
        read_truths(tmp_path)

"""Runs, incidents and holes are read from the numbers of the entries; nothing is invented."""

from dataclasses import replace

from journal_cast import closed, ended, entries, formed, opened, planned, recovered, resumed, verdict

from phalanx_cli.journal.record import missing_at_end, read_record, stands_now


def test_a_whole_journal_has_no_holes() -> None:
    record = read_record(entries(recovered()), [verdict()])
    [run] = record.runs
    [tale] = run.incidents
    assert (run.holes, tale.holes, run.entries_newest) == ([], [], 5)
    assert [each.fault_id for each in tale.verdicts] == ["fault-1"]
    assert tale.closed is not None
    assert missing_at_end(record, 5) == ""


def test_what_was_decided_at_once_may_be_stored_in_another_order() -> None:
    first, second, *rest = entries([*recovered(), ended()])
    record = read_record([replace(second, sequence=1), replace(first, sequence=2), *rest], [])
    [run] = record.runs
    assert run.holes == []
    assert run.ended is not None
    *before, closing, end = entries([*recovered(), ended()])
    [run] = read_record([*before, end, closing], []).runs
    assert run.holes == [], "the end of the job was stored before that of its incident"


def test_lost_entries_are_named_and_shown_where_they_may_belong() -> None:
    record = read_record(entries(recovered(), without={3}), [])
    [run] = record.runs
    assert run.holes == ["entry 3 is missing"]
    assert run.incidents[0].holes == run.holes
    later = [*recovered(), opened("inc-2", 90.0, version=2)]
    record = read_record(entries([*later, planned("inc-2", 91.0)], without={6}), [])
    assert record.runs[0].incidents[0].holes == [], "the first incident was over"
    assert record.runs[0].incidents[1].opened is None


def test_a_journal_that_does_not_reach_back_says_so() -> None:
    record = read_record(entries(recovered())[2:], [])
    [run] = record.runs
    assert run.holes == ["entries 1 to 2 are missing: the journal does not reach back so far"]
    assert run.formed is None
    assert run.incidents[0].opened is None


def test_entries_that_the_planner_counted_and_the_stream_does_not_have() -> None:
    record = read_record(entries(recovered())[:3], [])
    assert missing_at_end(record, 5) == "entries 4 to 5 are not in the journal (yet)"
    assert missing_at_end(read_record([], []), 1) == "entry 1 is not in the journal (yet)"


def test_a_job_id_that_is_used_again_has_two_runs() -> None:
    first = entries([*recovered(), ended()])
    second = entries([formed(200.0, version=3), opened("inc-2", 300.0, version=3)], sequence=7)
    record = read_record([*first, *second], [])
    assert [len(run.incidents) for run in record.runs] == [1, 1]
    assert record.runs[0].ended is not None
    assert record.runs[1].ended is None
    assert [run.holes for run in record.runs] == [[], []]


def test_also_when_the_beginning_of_the_first_is_gone() -> None:
    first = entries([*recovered(), ended()])[4:]
    second = entries([formed(200.0, version=3)], sequence=7)
    assert len(read_record([*first, *second], []).runs) == 2


def test_a_planner_that_did_not_count_leaves_no_false_holes() -> None:
    bare = [replace(entry, payload=entry.payload.model_copy(update={"entry": 0})) for entry in entries(recovered())]
    [run] = read_record(bare, []).runs
    assert (run.holes, run.entries_newest, len(run.incidents)) == ([], 0, 1)


def test_where_an_open_incident_stands() -> None:
    tale = read_record(entries([formed(), opened()]), []).runs[0].incidents[0]
    assert stands_now(tale) == "stopping, or waiting for a verdict"
    tale = read_record(entries([formed(), opened(), planned()]), []).runs[0].incidents[0]
    assert stands_now(tale) == "starting again"
    assert tale.closed is None


def test_a_verdict_belongs_to_the_incident_of_its_generation_or_to_the_plan_that_acted_on_it() -> None:
    payloads = [
        *recovered(),
        opened("inc-2", 90.0, version=2),
        planned("inc-2", 91.0, fault="fault-9"),
        resumed("inc-2"),
    ]
    record = read_record(
        entries([*payloads, closed("inc-2")]),
        [verdict(), verdict("fault-2", 90.2, version=2), verdict("fault-9", version=77), verdict("stray", version=50)],
    )
    first, second = record.runs[0].incidents
    assert [each.fault_id for each in first.verdicts] == ["fault-1"]
    assert [each.fault_id for each in second.verdicts] == ["fault-2", "fault-9"]

"""The story says what the journal says: with reasons, evidence, phases and cost, and with its holes."""

import json

from journal_cast import closed, ended, entries, formed, opened, planned, recovered, resumed, verdict, why

from fault_contracts.recovery import AttemptOpened, IncidentClosed, PhaseTimes, RecoveryHeld
from phalanx_cli.journal.as_data import record_data
from phalanx_cli.journal.phase_bar import phase_bar, phase_words
from phalanx_cli.journal.record import Record, Unread, read_record
from phalanx_cli.journal.tell import story_lines

EVIDENCE = {"msg-death": "rank 3 on b ended with SIGKILL", "cond-1": "b: xid_79: GPU-1 fell off the bus"}


def told(record: Record, *, incidents_max: int = 10) -> str:
    return "\n".join(story_lines(record, incidents_max=incidents_max, ranks_per_node=2, evidence=EVIDENCE))


def test_a_paragraph_has_signal_evidence_verdict_plan_outcome_and_cost() -> None:
    text = told(read_record(entries([*recovered(), ended()]), [verdict()]))
    order = [
        "journal      1 incident, since 2030-01-01 12:00:00",
        "incident 1 of 1  2030-01-01 12:01:00, 1 min 00 s in  inc-1  recovered after 2.00 s",
        "(hardware, gpu_fell_off_bus)",
        "+0.10 s  incident opened, all ranks are told to stop: rank 3 on b ended by signal 9",
        "evidence rank 3 on b ended with SIGKILL",
        "+0.40 s  verdict  hardware, gpu_fell_off_bus (0.97), asks for replace_node: Xid 79 on b",
        "why      +1.5 the device answers no more [live.gpu]",
        "evidence b: xid_79: GPU-1 fell off the bus",
        "evidence 1 of 2 pieces are not in the streams any more",
        "+0.50 s  plan     restart from step 40; 2 restarts left (c takes node_rank 1 from b)",
        "+2.00 s  resumed  every rank finished a step again, step 41",
        "+2.00 s  closed   recovered: every node trains",
        "phases    ddsssssspp",
        "detect 0.10, stop 0.30, plan 0.10, start 0.50, first step 1.00 s",
        "cost      2.00 s of 4 GPUs (8.0 GPU-s) standing still; 8 steps done again (16.0 GPU-s)",
        "node      c has node_rank 1 from b: gpu_fell_off_bus is blamed",
        "ended        2030-01-01 12:01:40, succeeded: all ranks ended with exit code 0",
    ]
    place = 0
    for part in order:
        found = text.find(part, place)
        assert found >= 0, f"{part!r} is missing, or at the wrong place, in:\n{text}"
        place = found


def test_the_verdict_is_told_from_the_journal_when_its_own_stream_has_it_no_more() -> None:
    text = told(read_record(entries(recovered()), []))
    assert text.count("verdict  hardware, gpu_fell_off_bus (0.97), asks for replace_node: Xid 79 on b") == 1
    assert text.index("verdict") < text.index("plan     restart")


def test_an_open_incident_and_a_job_without_any() -> None:
    text = told(read_record(entries([formed(), opened(), planned()]), []))
    assert "inc-1  open: starting again" in text
    assert "cost" not in text
    assert "journal      no incident, since" in told(read_record(entries([formed()]), []))
    assert told(Record()) == "journal      nothing is recorded of this job"


def test_holes_are_shown_as_holes() -> None:
    unread = Unread(sequence=9, subject="phx.evt", problem="not JSON")
    text = told(read_record(entries(recovered(), without={2, 4}), [], [unread]))
    assert "hole         entry 2 is missing" in text
    assert "hole: how it began is not in the record" in text
    assert "  hole: entry 4 is missing" in text
    assert "hole         message 9 of the journal cannot be read: not JSON" in text


def test_only_the_newest_incidents_are_told_and_the_rest_is_counted() -> None:
    many = [formed()]
    for number in range(1, 5):
        many += [opened(f"inc-{number}", 60.0 * number), closed(f"inc-{number}", 60.0 * number + 2)]
    text = told(read_record(entries(many), []), incidents_max=1)
    assert "incident 4 of 4" in text
    assert "incident 3 of 4" not in text
    assert "the newest 1 of 4 incidents are told; --incidents 4 tells all" in text


def test_a_wait_and_a_later_attempt_are_part_of_the_story() -> None:
    known = {"incident_id": "inc-1", "job_id": "llm", "topology_version": 1}
    reason = {"rule_id": "placement.no_spare", "sentence": "node_rank 1 has no spare"}
    held = RecoveryHeld.model_validate(
        {**known, "attempt": 1, "waits_for": "capacity", "reason": reason, "held_at": "2030-01-01T12:01:01Z"}
    )
    again = AttemptOpened.model_validate(
        {
            **known,
            "attempt": 2,
            "trigger": {"rule_id": "worker.exited", "sentence": "rank 0 on a ended too"},
            "fault_observed_at": "2030-01-01T12:01:05Z",
            "opened_at": "2030-01-01T12:01:05Z",
        }
    )
    text = told(read_record(entries([formed(), opened(), held, planned(), again]), []))
    assert "+1.00 s  waits    for capacity: node_rank 1 has no spare" in text
    assert "attempt 2, all ranks are told to stop again: rank 0 on a ended too" in text


def test_an_incident_of_an_older_planner_has_no_account_and_says_so() -> None:
    text = told(read_record(entries([formed(), opened(), closed(account=False)]), []))
    assert "cost      8 steps; this planner kept no accounts" in text


def test_a_bar_is_as_wide_as_its_phases_lasted() -> None:
    phases = PhaseTimes(detect_s=0.0, stop_s=1.0, plan_s=None, start_s=2.0, first_step_s=1.0)
    assert phase_bar(phases, width=8) == "dssllllff"
    assert phase_bar(PhaseTimes()) == ""
    assert phase_bar(PhaseTimes(detect_s=0.0)) == ""
    assert phase_words(PhaseTimes()) == "not known"
    assert phase_words(PhaseTimes(plan_s=120.4, wait_s=100.0)) == "plan 120 (100 of it waiting) s"


def test_programs_get_every_entry_whole() -> None:
    data = record_data(read_record(entries(recovered(), without={3}), [verdict()]), EVIDENCE)
    json.dumps(data)
    [run] = data["runs"]
    [incident] = run["incidents"]
    assert run["holes"] == incident["holes"] == ["entry 3 is missing"]
    assert (incident["outcome"], incident["account"]["down_gpu_s"], incident["open"]) == ("recovered", 8.0, False)
    assert [entry["data"]["entry"] for entry in incident["entries"]] == [2, 4, 5]
    last = incident["entries"][-1]
    assert (last["type"], last["message_id"]) == ("evt.recovery.incident_closed.v1", "msg-5")
    assert IncidentClosed.model_validate(last["data"]).account is not None
    assert data["evidence"]["cond-1"].startswith("b: xid_79")


def test_a_planned_stop_is_told_as_one_and_nobody_is_blamed() -> None:
    begun = opened().model_copy(update={"planned": True, "trigger": why("nodes are free again: the gang may grow")})
    end = closed()
    assert end.account is not None
    end = end.model_copy(update={"account": end.account.model_copy(update={"planned": True, "faults": ()})})
    text = told(read_record(entries([formed(), begun, resumed(), end]), []))
    assert "recovered after 2.00 s  (planned)" in text
    assert "+0.10 s  planned  all ranks are told to stop: nodes are free again: the gang may grow" in text
    assert "verdict" not in text

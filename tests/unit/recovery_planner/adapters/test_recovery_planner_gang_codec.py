"""Records survive the trip; what is not ours is refused in clear words."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter

from fault_contracts.agent import AgentReported, CheckpointReported, ExitStatus, JobSpec, WorkerExited
from fault_contracts.payload import Reason
from recovery_planner.adapters.gang_codec import decode_gang, decode_history, encode_gang, encode_history
from recovery_planner.domain.books import Books
from recovery_planner.domain.checkpoint_history import CheckpointHistory, record
from recovery_planner.domain.gang import Gang, Preemption
from recovery_planner.domain.incident_notes import IncidentNotes
from recovery_planner.domain.membership import AgentLost
from recovery_planner.domain.policy import Policy
from recovery_planner.domain.step import Event, new_gang, step
from service_kit.errors import ContractViolation

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
KNOWN: dict[str, Any] = {"policy": Policy(), "history": CheckpointHistory()}


def report(node: str) -> AgentReported:
    return AgentReported(
        node_id=node,
        instance_id=f"{node}/1",
        job_id="job",
        spec=JobSpec(nnodes=2, nproc_per_node=2),
        address=node,
        master_port=29_500,
        phase="ready",  # type: ignore[arg-type]
        topology_version=0,
        pid=1,
        host=node,
        reported_at=NOON,
    )


def broken_gang() -> Gang:
    """A gang in the middle of an incident, with effects that nobody has published."""
    gang = new_gang(report("a"), now=NOON)
    death = WorkerExited(
        node_id="a",
        instance_id="a/1",
        job_id="job",
        topology_version=1,
        ordinal=0,
        exit=ExitStatus(rank=0, local_rank=0, pid=1, signal=9),
        step=7,
        ran_s=1,
        observed_at=NOON,
    )
    events: list[Event] = [report("a"), report("b"), report("spare"), death]
    for event in events:
        gang = step(gang, event, now=NOON, policy=Policy(), history=CheckpointHistory()).gang
    return gang


def test_a_notice_survives_the_trip_with_its_request() -> None:
    asked = Preemption(
        nodes=frozenset({"a", "b"}), at_step=20, deadline_at=NOON, reason=Reason(rule_id="r", sentence="why")
    )
    gang = replace(broken_gang(), preemption=asked)
    assert decode_gang(encode_gang(gang)) == gang


def test_gang_survives_the_trip_with_its_pending_effects() -> None:
    gang = broken_gang()
    assert [type(effect.payload).__name__ for effect in gang.pending] == [
        "StartWorkers",
        "GangFormed",
        "StopWorkers",
        "IncidentOpened",
    ]
    assert decode_gang(encode_gang(gang)) == gang


def test_table_is_readable_for_others() -> None:
    table = json.loads(encode_gang(broken_gang()))["gang"]["table"]
    assert table["topology_version"] == 1
    assert table["rows"][1] == {"node_rank": 1, "node_id": "b", "address": "b", "nproc": 2}


def test_a_record_of_a_planner_that_wrote_out_its_defaults_is_read() -> None:
    gang = replace(broken_gang(), pending=())
    whole = b'{"v":1,"gang":%b,"pending":[]}' % TypeAdapter(Gang).dump_json(gang)
    assert len(whole) > len(encode_gang(gang))
    assert decode_gang(whole) == gang


def test_history_survives_the_trip() -> None:
    history = CheckpointHistory()
    for rank in range(3):
        history = record(
            history,
            CheckpointReported(
                node_id="a", job_id="job", topology_version=1, rank=rank, step=5, path="/c/5", saved_at=NOON
            ),
        )
    assert decode_history(encode_history(history)) == history


@pytest.mark.parametrize("decode", [decode_gang, decode_history])
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not JSON"),
        (b"[]", "not JSON with a version"),
        (b'{"v":2}', "version 2; this planner understands 1"),
        (b'{"v":1}', "damaged"),
        (b'{"v":1,"gang":{},"history":{"kinds":3},"pending":[]}', "damaged"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_what_is_not_ours_is_refused(decode, raw: bytes, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ContractViolation, match=words):
        decode(raw)


def test_unknown_effect_is_refused() -> None:
    record = json.loads(encode_gang(broken_gang()))
    record["pending"][0]["type"] = "evt.recovery.from_the_future.v9"
    with pytest.raises(ContractViolation, match="from_the_future"):
        decode_gang(json.dumps(record).encode())


def test_a_broken_invariant_of_the_table_is_damage() -> None:
    record = json.loads(encode_gang(replace(broken_gang(), pending=())))
    record["gang"]["table"]["rows"][1]["node_rank"] = 5
    with pytest.raises(ContractViolation, match="damaged"):
        decode_gang(json.dumps(record).encode())


def test_a_record_of_a_planner_that_kept_no_books_still_reads_and_its_books_begin_then() -> None:
    body = json.loads(encode_gang(broken_gang()))
    for name in ("books", "pace", "step_now", "journal_seq"):
        body["gang"].pop(name, None)
    body["gang"]["incident"].pop("notes", None)
    old = decode_gang(json.dumps(body).encode())
    assert (old.books, old.pace, old.journal_seq) == (Books(), None, 0)
    assert old.incident is not None
    assert old.incident.notes == IncidentNotes()
    later = NOON + timedelta(hours=1)
    kept = step(old, AgentLost(node_id="b", instance_id="b/1", rule_id="r", sentence="gone"), now=later, **KNOWN).gang
    assert kept.books.since == later
    assert decode_gang(encode_gang(kept)) == kept

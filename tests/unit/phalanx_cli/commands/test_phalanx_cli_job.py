"""What `phalanx job` shows is what the planner's records say, and no foreign text moves the cursor."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fault_contracts.agent import AgentReported, CheckpointReported, JobSpec, RankLabelsReported, WorkerExited
from phalanx_cli.commands.bus_choice import buses
from phalanx_cli.commands.job import Wanted, run_job
from phalanx_cli.commands.job_view import RANKS_SHOWN, job_lines, job_view
from recovery_planner.domain.checkpoint_history import CheckpointHistory, record
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.policy import Policy
from recovery_planner.domain.rank_labels import RanksLabelled
from recovery_planner.domain.step import Event, new_gang, step

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def gang_of(*events: Event, nproc: int = 2) -> Gang:
    reports = [
        AgentReported.model_validate(
            {
                "node_id": node,
                "instance_id": f"{node}/1",
                "job_id": "llm",
                "spec": JobSpec(nnodes=2, nproc_per_node=nproc),
                "address": f"{node}.example",
                "master_port": 29_500,
                "phase": "ready",
                "topology_version": 0,
                "pid": 7,
                "host": node,
                "reported_at": NOON,
            }
        )
        for node in ("a", "b", "c")
    ]
    gang = new_gang(reports[0], now=NOON)
    for event in (*reports, *events):
        gang = step(gang, event, now=NOON, policy=Policy(), history=CheckpointHistory()).gang
    return gang


def labels(rank: int, **values: str) -> RanksLabelled:
    report = RankLabelsReported(node_id="a", job_id="llm", topology_version=1, rank=rank, labels=values)
    return RanksLabelled(reports=(report,))


def history(path: str = "/c/10/rank{rank}") -> CheckpointHistory:
    found = CheckpointHistory()
    for rank in range(4):
        report = CheckpointReported(
            node_id="a",
            job_id="llm",
            topology_version=1,
            rank=rank,
            step=10,
            path=path.format(rank=rank),
            saved_at=NOON,
        )
        found = record(found, report)
    return found


def test_a_job_in_an_incident() -> None:
    death = WorkerExited.model_validate(
        {
            "node_id": "b",
            "instance_id": "b/1",
            "job_id": "llm",
            "topology_version": 1,
            "ordinal": 0,
            "exit": {"rank": 3, "local_rank": 1, "pid": 9, "signal": 9},
            "ran_s": 1.0,
            "observed_at": NOON,
        }
    )
    gang = gang_of(labels(3, dp="1", tp="\x1b[2J"), death)
    view = job_view(gang, history(), step=17, now=NOON)
    assert (view["phase"], view["step"], view["checkpoint"]["step"]) == ("stopping", 17, 10)
    assert view["checkpoint"]["paths"]["3"] == "/c/10/rank3"
    assert view["ranks"][3] == {"rank": 3, "node_id": "b", "labels": {"dp": "1", "tp": "\x1b[2J"}}
    assert view["restarts"] == {"done": 0, "left": 3, "max": 3, "window_s": 3_600.0}
    assert [spare["node_id"] for spare in view["spares"]] == ["c"]
    json.dumps(view)
    text = "\n".join(job_lines(view))
    assert "rank 3 on b ended by signal 9" in text
    assert "checkpoint   step 10, a path for each rank, such as /c/10/rank0" in text
    assert "waits for a, b" in text
    assert "\x1b" not in text


def test_a_young_job_knows_little_and_says_so() -> None:
    text = "\n".join(job_lines(job_view(gang_of(), CheckpointHistory(), step=None, now=NOON)))
    assert "last step    unknown" in text
    assert "checkpoint   none: no step is confirmed" in text
    assert "RANK  " not in text.split("NODE_RANK")[1]


def test_many_ranks_are_cut_in_the_table_and_whole_in_the_data() -> None:
    gang = gang_of(*(labels(rank, dp=str(rank)) for rank in range(100)), nproc=50)
    view = job_view(gang, CheckpointHistory(), step=None, now=NOON)
    assert len(view["ranks"]) == 100
    assert f"... and {100 - RANKS_SHOWN} more ranks; --json has all" in list(job_lines(view))


def test_damaged_labels_are_said_and_the_rest_is_shown() -> None:
    view = job_view(replace(gang_of(), labels="???"), CheckpointHistory(), step=None, now=NOON)
    assert any("labels of ranks are damaged" in line for line in job_lines(view))


def test_without_a_bus_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NATS_URL", raising=False)
    (tmp_path / "runs" / "old").mkdir(parents=True)
    (tmp_path / "runs" / "old" / "stack.json").write_text("not of this version")
    assert buses("", tmp_path) == []
    assert run_job(Wanted(), cluster="", data_dir=tmp_path) == 3
    assert "set NATS_URL" in capsys.readouterr().err

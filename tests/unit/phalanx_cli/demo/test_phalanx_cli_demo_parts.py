"""The small parts: options, words, sentences, weights, the run's folder."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fault_contracts.agent import ExitStatus, OomKill, StepReported, WorkerError, WorkerExited
from phalanx_cli.demo.place import RUNS_KEPT, make_run_folder
from phalanx_cli.demo.scenario import BadOptions, Fault, Options, check, chosen_faults
from phalanx_cli.demo.sentences import sentence
from phalanx_cli.demo.weights import compare
from phalanx_cli.demo.words import ALPHABET, as_tokens, read_words

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_faults_are_played_in_the_demos_order_and_unknown_ones_are_refused() -> None:
    assert chosen_faults(["bug", "kill-rank"]) == (Fault.KILL_RANK, Fault.BUG)
    with pytest.raises(BadOptions, match="no fault 'flood'; there are: kill-rank"):
        chosen_faults(["flood"])
    with pytest.raises(BadOptions, match="at least one"):
        chosen_faults([])


def test_too_few_steps_for_the_faults_are_refused_before_anything_starts() -> None:
    check(Options())
    check(Options(steps=120, faults=(Fault.KILL_RANK, Fault.BUG)))
    with pytest.raises(BadOptions, match="too short"):
        check(Options(steps=100))


def test_the_words_are_many_and_come_back_from_their_tokens() -> None:
    words = read_words()
    assert len(words) > 8_000
    tokens = as_tokens(words[:50])
    assert "".join(ALPHABET[token] for token in tokens).split("\n")[:-1] == words[:50]


def write_results(folder: Path, *digests: str, steps: int = 10) -> Path:
    folder.mkdir()
    for rank, digest in enumerate(digests):
        text = json.dumps({"weights_sha256": digest, "steps": steps})
        (folder / f"rank_{rank}.json").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("ours", "theirs", "steps", "identical"),
    [
        (("a", "a"), ("a", "a"), 10, True),
        (("a", "a"), ("b", "b"), 10, False),
        (("a", "a"), ("a", "b"), 10, False),
        (("a", "a"), ("a",), 10, None),
        (("a", "a"), ("a", "a"), 11, None),
    ],
)
def test_weights_are_identical_only_if_all_ranks_of_both_runs_agree(
    tmp_path: Path, ours: tuple[str, ...], theirs: tuple[str, ...], steps: int, identical: bool | None
) -> None:
    first, second = write_results(tmp_path / "a", *ours), write_results(tmp_path / "b", *theirs)
    assert compare(first, second, world_size=2, steps=steps).identical is identical


def exited(exit_: ExitStatus, error: WorkerError | None = None) -> WorkerExited:
    return WorkerExited(
        node_id="a", instance_id="i", job_id="j", topology_version=1, ordinal=0, exit=exit_, error=error, ran_s=1,
        observed_at=AT,
    )  # fmt: skip


def test_an_exit_is_told_in_one_short_line() -> None:
    killed = ExitStatus(rank=3, local_rank=1, pid=7, signal=9, oom_kill=OomKill.YES)
    assert sentence(exited(killed), ranks_per_node=2) == (
        "signal",
        "rank 3 on a ended with SIGKILL by the out-of-memory killer",
    )
    error = WorkerError(type="ValueError", message="x" * 500 + "\nsecond", fingerprint="f", source="stderr")
    told = sentence(exited(ExitStatus(rank=0, local_rank=0, pid=7, exit_code=1), error), ranks_per_node=2)
    assert told is not None
    assert "\n" not in told[1]
    assert len(told[1]) < 200


def test_what_nobody_needs_to_read_is_not_told() -> None:
    report = StepReported(node_id="a", job_id="j", topology_version=1, step=1, first=False, reported_at=AT)
    assert sentence(report, ranks_per_node=2) is None


def test_old_runs_make_room_and_tidying_leaves_the_logs(tmp_path: Path) -> None:
    folders = [make_run_folder(tmp_path) for _ in range(RUNS_KEPT + 2)]
    assert len(list(tmp_path.iterdir())) == RUNS_KEPT
    newest = folders[-1]
    (newest.logs / "a.log").touch()
    (newest.stack / "logs").mkdir(parents=True)
    (newest.stack / "logs" / "nats-server.log").touch()
    newest.tidy()
    left = {str(path.relative_to(newest.root)) for path in newest.root.rglob("*.log")}
    assert left == {"logs/a.log", "logs/servers/nats-server.log"}
    assert not newest.stack.exists()
    assert not newest.faults.exists()

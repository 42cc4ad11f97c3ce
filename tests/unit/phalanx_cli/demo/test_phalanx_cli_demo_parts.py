"""The small parts: options, words, sentences, weights, the run's folder."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fault_contracts.agent import ExitStatus, OomKill, StepReported, WorkerError, WorkerExited, WorkersStarted
from fault_contracts.payload import Reason
from fault_contracts.rank_faults import RanksFaulted, Suspect
from fault_contracts.recovery import GangFormed, RecoveryPlanned
from fault_contracts.recovery_level import RecoveryLevel
from node_agent.adapters.log_rules_yaml import YamlRuleFile
from phalanx_cli.demo.inject import InjectionFailed, inject
from phalanx_cli.demo.listing import listing
from phalanx_cli.demo.options import BadOptions, Options, check, chosen_faults
from phalanx_cli.demo.pace import enough_wanted, say_enough, set_pace, step_s_wanted
from phalanx_cli.demo.place import RUNS_KEPT, make_run_folder
from phalanx_cli.demo.processes import read_processes, replaced_ranks, write_process
from phalanx_cli.demo.scenario import LOSS_RULE, Act, Fault
from phalanx_cli.demo.stage import LOG_RULES
from phalanx_cli.demo.story import JobStory
from phalanx_cli.demo.weights import compare, last_step, write_result
from phalanx_cli.demo.words import ALPHABET, as_tokens, read_words
from phalanx_cli.journal.sentences import sentence

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


def run_with(work: Path, *weights: bytes, step: int = 10) -> Path:
    for rank, one in enumerate(weights):
        write_result(work, one, rank=rank, step=step)
    return work


@pytest.mark.parametrize(
    ("ours", "theirs", "step", "identical"),
    [
        ((b"a", b"a"), (b"a", b"a"), 10, True),
        ((b"a", b"a"), (b"b", b"b"), 10, False),
        ((b"a", b"a"), (b"a", b"b"), 10, False),
        ((b"a", b"a"), (b"a",), 10, None),
        ((b"a", b"a"), (b"a", b"a"), 11, None),
    ],
)
def test_weights_are_identical_only_if_all_ranks_of_both_runs_agree(
    tmp_path: Path, ours: tuple[bytes, ...], theirs: tuple[bytes, ...], step: int, identical: bool | None
) -> None:
    first, second = run_with(tmp_path / "a", *ours), run_with(tmp_path / "b", *theirs)
    assert compare(first, second, job="j", world_size=2, step=step).identical is identical


def test_the_last_results_of_a_run_are_found(tmp_path: Path) -> None:
    assert last_step(tmp_path) == 0
    for step in (20, 100, 40):
        run_with(tmp_path, b"a", step=step)
    assert last_step(tmp_path) == 100


def test_a_job_is_slowed_down_and_let_go_and_told_that_it_is_enough(tmp_path: Path) -> None:
    work = tmp_path / "work"
    set_pace(work, None)
    assert step_s_wanted(work, 0.02) == 0.02
    set_pace(work, 0.2)
    assert step_s_wanted(work, 0.02) == 0.2
    set_pace(work, None)
    assert step_s_wanted(work, 0.02) == 0.02
    assert enough_wanted(work) is False
    say_enough(work)
    assert enough_wanted(work) is True


def test_the_list_names_every_fault_with_its_truth() -> None:
    told = listing()
    assert all(f"  {fault} " in told for fault in Fault)
    assert "verdict: platform, process_killed or agent_lost" in told


def test_each_fault_that_costs_a_node_has_one_in_reserve() -> None:
    assert Options().spares_of(Act.RESTARTS) == 2
    assert Options(faults=(Fault.KILL_RANK, Fault.KILL_NODE)).spares_of(Act.RESTARTS) == 1
    assert Options(faults=(Fault.XID_31,)).spares_of(Act.HARDWARE) == 0


def test_processes_are_read_back_generation_by_generation(tmp_path: Path) -> None:
    for version, ranks in ((1, (0, 1)), (2, (1,))):
        for rank in ranks:
            write_process(tmp_path, topology_version=version, rank=rank)
    lives = read_processes(tmp_path, topology_versions=3, world_size=2)
    assert lives == {1: {0: os.getpid(), 1: os.getpid()}, 2: {1: os.getpid()}, 3: {}}
    assert replaced_ranks(lives, 1, 1, world_size=2) == frozenset()
    assert replaced_ranks(lives, 1, 2, world_size=2) is None, "rank 0 did not begin version 2"


def test_the_in_place_job_is_as_short_as_its_faults_allow() -> None:
    chosen = Options(faults=(Fault.KILL_RANK, Fault.RAISE_IN_PLACE, Fault.KILL_IN_PLACE))
    assert chosen.steps_of(Act.RESTARTS) == chosen.steps
    assert chosen.steps_of(Act.IN_PLACE) == 180


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


def test_a_rank_that_gives_up_in_its_block_has_not_ended() -> None:
    error = WorkerError(type="OSError", message="no batch", fingerprint="f", source="error_file")
    event = exited(ExitStatus(rank=0, local_rank=0, pid=7), error).model_copy(update={"process_alive": True})
    assert sentence(event, ranks_per_node=2) == (
        "signal",
        "rank 0 on a gave up and its process lives: OSError: no batch",
    )


def planned(level: RecoveryLevel, *replaced: int) -> str:
    why = Reason(rule_id="r", sentence="because")
    event = RecoveryPlanned(
        incident_id="i", job_id="j", attempt=1, level=level, topology_version=2, restarts_left=9, reasons=(why,),
        ranks_replaced=replaced, checkpoint_step=40, planned_at=AT,
    )  # fmt: skip
    told = sentence(event, ranks_per_node=2)
    assert told is not None
    return told[1]


def test_a_plan_says_which_processes_go_on() -> None:
    assert planned(RecoveryLevel.PROCESS, 3) == "restart from step 40; 9 restarts left (because)"
    assert "in place, every process goes on, from step 40" in planned(RecoveryLevel.IN_PROCESS)
    assert "in place, a new process for rank 3 alone, from step 40" in planned(RecoveryLevel.IN_PROCESS, 3)


@pytest.mark.parametrize(
    ("suspects", "wanted"),
    [
        ((Suspect(rank=2, local_rank=0, pid=7),), "rank 2 on a cannot go on (stopped): it is stopped"),
        ((), "nobody alone on a cannot go on (stopped): it is stopped"),
    ],
)
def test_a_rank_that_lives_and_cannot_go_on_is_told_with_its_rule(suspects: tuple[Suspect, ...], wanted: str) -> None:
    event = RanksFaulted(
        node_id="a", instance_id="i", job_id="j", topology_version=1, check="process_stopped", rule_id="stopped",
        suspects=suspects, reason="it is stopped", ran_s=1, observed_at=AT,
    )  # fmt: skip
    assert sentence(event, ranks_per_node=2) == ("signal", wanted)


def job_of(*pids: int) -> JobStory:
    story = JobStory("j", ranks_per_node=2)
    story.apply(GangFormed(job_id="j", topology_version=1, nodes=("a", "b"), world_size=4, formed_at=AT))
    for node_id, own in (("a", pids[:2]), ("b", pids[2:])):
        story.apply(
            WorkersStarted(
                node_id=node_id, instance_id="i", job_id="j", topology_version=1, operation_id="o", pids=own,
                source="nursery", duration_s=0,
            )
        )  # fmt: skip
    return story


def test_a_stop_hits_the_process_it_names_and_a_file_makes_a_rank_fail_once(tmp_path: Path) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        told = inject(Fault.STOP_RANK, job_of(1, 2, sleeper.pid, 4), tmp_path)
        assert (told.node_id, told.rank) == ("b", 2)
        _, status = os.waitpid(sleeper.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
    finally:
        sleeper.kill()
        sleeper.wait()
    told = inject(Fault.NAN_LOSS, job_of(1, 2, 3, 4), tmp_path)
    assert (told.node_id, told.rank) == ("a", 0)
    assert (tmp_path / "nan_rank_0").exists()


def test_two_faults_of_one_moment_hit_a_rank_and_the_agent_of_the_other_node(tmp_path: Path) -> None:
    sleepers = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2)]
    try:
        story = job_of(sleepers[0].pid, 2, 3, 4)
        story.nodes["b"].agent_pid = sleepers[1].pid
        told = inject(Fault.TWO_AT_ONCE, story, tmp_path)
        assert [sleeper.wait() for sleeper in sleepers] == [-9, -9]
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
    assert (told.node_id, told.rank, told.also, told.agents_killed) == ("b", None, (("a", 0),), ("b",))


def test_a_target_that_has_ended_is_said_and_not_passed_over(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(InjectionFailed, match="ended already"):
        inject(Fault.KILL_RANK, job_of(1, 2, 3, ended.pid), tmp_path)
    with pytest.raises(InjectionFailed, match="not known"):
        inject(Fault.KILL_RANK, job_of(1, 2), tmp_path)


def test_the_rules_of_the_first_job_are_good_and_have_the_rule_that_is_looked_for() -> None:
    loaded = YamlRuleFile(LOG_RULES).load()
    assert [rule.name for rule in loaded.rules] == [LOSS_RULE]
    assert not loaded.refused


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

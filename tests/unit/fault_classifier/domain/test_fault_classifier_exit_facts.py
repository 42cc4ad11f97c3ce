"""Each rule once where it holds, and once where something that looks alike must not be taken for it."""

from __future__ import annotations

from judge_story import BOOK, GLOO_CLOSED, Judge, asked, died, lost, lost_peer, raised, verdict_on

from fault_classifier.domain.evidence import Note
from fault_contracts.agent import OomKill

MODULE_FRAME = "/home/alice/train.py:3 in <module>: import torchvison"
FUNCTION_FRAME = "/home/alice/train.py:40 in main: model.foward(batch)"


def told(verdict) -> tuple[str, str, str]:
    return (verdict.attribution.value, verdict.cause, verdict.action.value)


def rule_of(verdict) -> str:
    return verdict.reasons[0].rule_id


UNKNOWN_EXCEPTION = ("unknown", "python_exception", "restart_process")
REPEATED = ("user", "repeated_exception", "dont_retry_notify_user")
STARTUP = ("user", "startup_exception", "dont_retry_notify_user")


def generations(*deaths) -> list:
    """One death a generation; the verdict on each."""
    judge = Judge()
    return [judge.see(death, version)[0] for version, death in enumerate(deaths, start=1)]


def test_every_rule_has_a_story() -> None:
    told_here = {
        "user.repeated_oom_kill", "user.oom_kill", "platform.process_killed", "user.repeated_exception",
        "user.startup_exception", "unknown.native_crash", "unknown.python_exception", "platform.agent_lost",
        "unknown.other_signal", "unknown.exit_code", "unknown.status_lost", "unknown.communication_error",
        "unknown.told_to_end", "unknown.no_evidence", "unknown.unrecognised", "user.restart_asked",
    }  # fmt: skip
    told_of_the_living = {  # test_fault_classifier_live_facts.py
        "platform.process_stopped", "user.repeated_log_rule", "unknown.log_rule", "platform.process_blocked",
        "unknown.hang",
    }  # fmt: skip
    told_of_devices = {  # test_fault_classifier_device_facts.py
        "hardware.gpu_lost", "hardware.gpu_memory", "hardware.nvlink", "hardware.gpu_thermal", "hardware.nic",
        "hardware.device_fault", "driver.gpu_driver", "platform.host_fault", "unknown.device_report",
    }  # fmt: skip
    live = {rule.rule_id for rule in BOOK.rules if rule.file.rpartition("/")[2].startswith("live")}
    assert live == told_here | told_of_the_living | told_of_devices


# --------------------------------------------------------------------------------------------- user.restart_asked


def test_a_script_may_ask_for_a_restart_at_the_same_step_as_often_as_it_likes() -> None:
    for verdict in generations(*(asked(2, step=40, tag=tag) for tag in "abcd")):
        assert told(verdict) == ("user", "restart_asked", "restart_process")
        assert verdict.reasons[0].sentence.endswith("asked for a restart of level process after step 40: "
                                                    "the allocator is fragmented")  # fmt: skip


def test_a_wish_is_no_earlier_exception_of_that_name() -> None:
    _, second = generations(asked(2, step=40), died(2, error=raised("RestartRequested", "mine"), step=40))
    assert told(second) == UNKNOWN_EXCEPTION


# ------------------------------------------------------------------------------------------ user.repeated_exception


def test_same_exception_at_the_same_step_is_the_users() -> None:
    first, second = generations(
        died(2, error=raised(), step=40, tag="a"), died(2, error=raised(), step=40, checkpoint=30, tag="b")
    )
    assert told(first) == UNKNOWN_EXCEPTION
    assert told(second) == REPEATED
    assert second.reasons[0].evidence_ids == ("death-of-2b", "death-of-2a")
    assert "the same exception at the same step again will end the job" in first.reasons[0].sentence


def test_the_rank_may_be_another_one() -> None:
    _, second = generations(died(2, error=raised(), step=40), died(0, error=raised(), step=40))
    assert told(second) == REPEATED


def test_same_exception_at_another_step_is_tried_again() -> None:
    _, second = generations(died(2, error=raised(), step=40), died(2, error=raised(), step=41, tag="b"))
    assert told(second) == UNKNOWN_EXCEPTION


def test_another_exception_at_the_same_step_is_tried_again() -> None:
    other = raised("KeyError", "'x'")
    _, second = generations(died(2, error=raised(), step=40), died(2, error=other, step=40, tag="b"))
    assert told(second) == UNKNOWN_EXCEPTION


def test_same_exception_on_two_ranks_of_one_generation_is_no_repetition() -> None:
    assert told(verdict_on(died(0, error=raised(), step=40), died(2, error=raised(), step=40))) == UNKNOWN_EXCEPTION


def test_without_steps_it_takes_three_times() -> None:
    verdicts = generations(*(died(2, error=raised(), checkpoint=100, tag=str(turn)) for turn in range(3)))
    assert [told(verdict) for verdict in verdicts] == [UNKNOWN_EXCEPTION, UNKNOWN_EXCEPTION, REPEATED]
    assert verdicts[2].counter_evidence
    assert verdicts[2].confidence < 0.95


def test_without_steps_a_gained_checkpoint_is_progress() -> None:
    verdicts = generations(
        *(died(2, error=raised(), checkpoint=step, tag=str(step)) for step in (100, 100, 120, 120, 140))
    )
    assert {told(verdict) for verdict in verdicts} == {UNKNOWN_EXCEPTION}


def test_without_steps_it_is_counted_from_the_last_progress() -> None:
    verdicts = generations(
        *(died(2, error=raised(), checkpoint=at, tag=f"{n}") for n, at in enumerate((90, 120, 120, 120)))
    )
    assert [told(verdict) for verdict in verdicts] == [UNKNOWN_EXCEPTION] * 3 + [REPEATED]
    assert "; 2 more without checkpoint progress will end the job" in verdicts[1].reasons[0].sentence
    assert "; 1 more without checkpoint progress will end the job" in verdicts[2].reasons[0].sentence


def test_a_step_known_only_once_is_unknown() -> None:
    _, second = generations(died(2, error=raised(), step=40), died(2, error=raised(), tag="b"))
    assert told(second) == UNKNOWN_EXCEPTION


def test_exceptions_beside_a_kill_do_not_count_as_a_repetition() -> None:
    """A peer's death in words that no pattern knows must not become the user's fault when it happens again."""
    judge = Judge()
    judge.see(died(0, error=raised(), step=40, tag="a"), 1)
    judge.see(died(2, signal=9, tag="a"), 1)
    assert told(judge.see(died(0, error=raised(), step=40, tag="b"), 2)[0]) == UNKNOWN_EXCEPTION
    judge.see(died(0, error=raised(), step=40, tag="c"), 3)
    assert told(judge.verdicts[-1]) == REPEATED


def test_exceptions_beside_a_lost_node_do_not_count_as_a_repetition() -> None:
    judge = Judge()
    judge.see(died(0, error=raised(), step=40, tag="a"), 1)
    judge.see(lost("node-1"), 1)
    assert told(judge.see(died(0, error=raised(), step=40, tag="b"), 2)[0]) == UNKNOWN_EXCEPTION


def test_a_repeated_communication_error_is_never_the_users() -> None:
    judge = Judge()
    for version in (1, 2, 3):
        judge.see(died(0, error=lost_peer(), step=40, tag=str(version)), version)
        judge.wait(2.0)
    assert {told(verdict) for verdict in judge.verdicts} == {("unknown", "communication_error", "restart_process")}


# ------------------------------------------------------------------------------------------- user.startup_exception


def test_a_missing_module_at_the_start_is_the_users() -> None:
    missing = raised("ModuleNotFoundError", "No module named 'torchvison'", frames=[MODULE_FRAME])
    assert told(verdict_on(died(0, error=missing, ran_s=2.5))) == STARTUP


def test_a_wrong_name_at_module_level_is_the_users() -> None:
    assert told(verdict_on(died(0, error=raised("NameError", frames=[MODULE_FRAME]), ran_s=2.5))) == STARTUP


def test_a_wrong_name_inside_a_function_may_depend_on_data() -> None:
    wrong = raised("AttributeError", frames=[MODULE_FRAME, FUNCTION_FRAME])
    assert told(verdict_on(died(0, error=wrong, ran_s=2.5))) == UNKNOWN_EXCEPTION


def test_a_wrong_name_without_frames_proves_nothing() -> None:
    assert told(verdict_on(died(0, error=raised("NameError"), ran_s=2.5))) == UNKNOWN_EXCEPTION


def test_an_import_error_after_training_began_is_not_of_the_start() -> None:
    missing = raised("ModuleNotFoundError", frames=[MODULE_FRAME])
    assert told(verdict_on(died(0, error=missing, ran_s=2.5, step=1))) == UNKNOWN_EXCEPTION
    assert told(verdict_on(died(0, error=missing, ran_s=2.5, checkpoint=50))) == UNKNOWN_EXCEPTION
    assert told(verdict_on(died(0, error=missing, ran_s=900.0))) == UNKNOWN_EXCEPTION


# --------------------------------------------------------------------------------------------------- killed and OOM


def test_sigkill_without_an_oom_record_is_the_platforms() -> None:
    verdict = verdict_on(died(3, signal=9))
    assert told(verdict) == ("platform", "process_killed", "restart_process")
    assert (verdict.culprit.rank, verdict.culprit.node_id) == (3, "node-1")
    assert verdict.counter_evidence == ()


def test_an_unreadable_oom_record_lowers_the_confidence_and_is_said() -> None:
    sure, doubtful = verdict_on(died(3, signal=9)), verdict_on(died(3, signal=9, oom=OomKill.UNKNOWN))
    assert told(doubtful) == told(sure)
    assert doubtful.confidence < sure.confidence
    assert "OOM killer did it is unknown" in doubtful.counter_evidence[0].sentence
    assert "OOM killer did it is unknown" in doubtful.summary


def test_an_oom_kill_is_the_jobs_and_tried_once_more() -> None:
    assert told(verdict_on(died(3, signal=9, oom=OomKill.YES))) == ("user", "host_oom", "restart_process")


def test_a_second_oom_kill_at_the_same_step_is_not_retried() -> None:
    _, second = generations(
        died(3, signal=9, oom=OomKill.YES, step=70, tag="a"), died(1, signal=9, oom=OomKill.YES, step=70, tag="b")
    )
    assert told(second) == ("user", "host_oom", "dont_retry_notify_user")
    assert rule_of(second) == "user.repeated_oom_kill"


def test_a_second_oom_kill_elsewhere_or_nowhere_known_is_retried() -> None:
    for step in (71, None):
        _, second = generations(
            died(3, signal=9, oom=OomKill.YES, step=70, tag="a"), died(3, signal=9, oom=OomKill.YES, step=step, tag="b")
        )
        assert rule_of(second) == "user.oom_kill"


# -------------------------------------------------------------------------------------------- crashes, codes, status


def test_native_crashes_stay_unknown() -> None:
    for signal in (4, 6, 7, 8, 11):
        assert told(verdict_on(died(0, signal=signal))) == ("unknown", "native_crash", "restart_process")


def test_sigabrt_of_a_failed_collective_is_a_victims() -> None:
    aborted = died(0, signal=6, tail=("[rank0]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7",))
    assert rule_of(verdict_on(aborted, died(2, signal=9))) == "platform.process_killed"
    assert verdict_on(aborted, died(2, code=3)).cause == "exit_code"


def test_an_exit_code_without_exception_stays_unknown() -> None:
    assert told(verdict_on(died(0, code=3))) == ("unknown", "exit_code", "restart_process")
    assert rule_of(verdict_on(died(0, code=1, error=raised()))) == "unknown.python_exception"


def test_a_lost_exit_status_stays_unknown() -> None:
    assert told(verdict_on(died(0, lost_status=True))) == ("unknown", "status_lost", "restart_process")
    assert rule_of(verdict_on(died(0, code=2))) == "unknown.exit_code"


def test_a_signal_that_no_rule_reads_stays_unknown() -> None:
    verdict = verdict_on(died(0, signal=24))
    assert told(verdict) == ("unknown", "other_signal", "restart_process")
    assert "SIGXCPU" in verdict.summary
    assert rule_of(verdict_on(died(0, signal=11))) == "unknown.native_crash"


# ------------------------------------------------------------------------------------------------ nodes and victims


def test_a_lost_agent_is_the_platforms() -> None:
    verdict = verdict_on(died(0, error=lost_peer()), lost("node-1"))
    assert told(verdict) == ("platform", "agent_lost", "restart_process")
    assert (verdict.culprit.node_id, verdict.culprit.rank) == ("node-1", None)


def test_a_lost_agent_does_not_explain_a_kill_on_another_node() -> None:
    verdict = verdict_on(died(0, signal=9), lost("node-1"))
    assert verdict.cause == "process_killed"
    assert [reason.rule_id for reason in verdict.counter_evidence] in ([], ["platform.agent_lost"])


def test_only_lost_peers_name_nobody() -> None:
    verdict = verdict_on(died(0, error=lost_peer()), died(2, error=lost_peer()))
    assert told(verdict) == ("unknown", "communication_error", "restart_process")
    assert verdict.culprit.node_id is None
    assert verdict.culprit.rank is None


def test_being_told_to_end_names_no_cause() -> None:
    assert told(verdict_on(died(0, signal=15))) == ("unknown", "told_to_end", "restart_process")
    assert verdict_on(died(0, signal=15), died(2, signal=9)).cause == "process_killed"


def test_an_incident_without_evidence_is_said_to_be_one() -> None:
    judge = Judge()
    assert judge.incident() == []
    assert told(judge.wait(1.9)[0]) == ("unknown", "no_evidence", "restart_process")


def test_what_no_rule_reads_is_kept_and_costs_nothing() -> None:
    note = Note(evidence_id="n", node_id="node-0", check="xid_999", sentence="Xid 999")
    verdict = verdict_on(note)
    assert told(verdict) == ("unknown", "unrecognised", "restart_process")
    assert "xid_999" in verdict.summary
    assert verdict_on(note, died(2, signal=9)).cause == "process_killed"
    assert verdict_on(note, died(2, error=lost_peer(GLOO_CLOSED))).cause == "communication_error"

"""What the watch over a node's ranks finds, with the real engine: HyperPod's documented rules, and what ours add."""

from datetime import UTC, datetime

from log_rig import ERR, HANGING, JOB_START, OOM, OUT, SPIKE, TFLOPS, Watched

from node_agent.application.log_ports import LogCheckpoint, LogProgress
from node_agent.domain.log_rule import LogStream, RuleAction
from node_agent.domain.log_state import LogState
from training_topology.identity import Rank

# --------------------------------------------------------------------------------------- HyperPod's documented rules


def test_a_job_that_never_starts_is_hanging_after_the_cut_off() -> None:
    on = Watched(JOB_START)
    on.say("INFO importing torch")
    on.pass_to(119.0)
    assert on.heard.ids == []
    on.pass_to(121.0)
    assert on.heard.ids == [("LogHang_JobStart", None)], "no rank printed it: the node is meant, once"
    assert on.heard.findings[0].observed_at == datetime(2030, 1, 1, 0, 2, tzinfo=UTC), "at the moment, not at a poll"
    assert on.heard.findings[0].action is RuleAction.FAULT
    assert on.watch.node_state().reason == "LogHang_JobStart"


def test_a_job_whose_start_one_rank_announces_has_started() -> None:
    on = Watched(JOB_START, ranks=8)
    on.say("INFO Experiment configuration: lr=1", rank=3)
    on.pass_to(1_000.0)
    assert on.heard.findings == []
    assert on.watch.next_deadline_s is None


def test_a_loss_line_that_stops_coming_makes_its_rank_hang() -> None:
    on = Watched(HANGING)
    line = '[Epoch 0 Batch 12] {"training_loss_step": 1.25, "lr": 0.1}'
    for at_s in (500.0, 700.0):
        on.pass_to(at_s)
        on.say(line)
    on.pass_to(999.0)
    assert on.heard.ids == []
    on.pass_to(1_001.0)
    assert on.heard.ids == [("LogHang_JobHangingDetection", 0)]
    finding = on.heard.findings[0]
    assert finding.excerpt == line, "the last line there was"
    assert (finding.stream, finding.offset) == (None, len(line) + 1)
    on.say(line)
    assert on.heard.ids[1:] == [("LogHealthy_JobHangingDetection", 0)]


def test_a_loss_above_two_five_times_in_a_row_makes_its_rank_slow() -> None:
    on = Watched(SPIKE)
    for value in (2.5, 2.5, 1.0, 2.1, 2.2, 2.3, 2.4):
        on.say(f"training_loss_step {value}", rank=1)
    assert on.heard.ids == []
    on.say("training_loss_step 2.71 end", rank=1)
    assert on.heard.ids == [("LogSlow_LossSpikeDetection", 1)]
    finding = on.heard.findings[0]
    assert (finding.value, finding.stream, finding.state) == (2.71, OUT, LogState.SLOW)
    assert finding.excerpt == "training_loss_step 2.71 end"
    states = on.watch.rank_states()
    assert (states[Rank(1)].state, states[Rank(1)].action) == (LogState.SLOW, RuleAction.FAULT)
    assert states[Rank(0)].state is LogState.WAITING


def test_a_throughput_rule_that_is_slow_and_then_silent() -> None:
    on = Watched(TFLOPS)
    for second in range(5):
        on.pass_to(float(second))
        on.say(f"step {second} 88.5TFLOPs per GPU")
    assert on.heard.ids == [("LogSlow_TFLOPs", 0)]
    on.pass_to(10.0)
    assert on.heard.ids[1:] == [("LogHang_TFLOPs", 0)]


def test_an_error_line_faults_at_once_on_either_stream() -> None:
    for stream in LogStream:
        on = Watched(OOM)
        on.say("RuntimeError: CUDA out of memory", rank=1, stream=stream)
        assert on.heard.ids == [("LogFault_GPU Error", 1)]
        assert on.heard.findings[0].stream is stream


def test_a_metric_that_is_no_number_does_not_hide_the_line_from_later_rules() -> None:
    loss = r"- {name: loss, logPattern: '.*loss (\S+).*', metricThreshold: 2, operator: gt}" + "\n"
    on = Watched(loss + OOM)
    on.say("loss n/a RuntimeError: out of memory")
    assert on.heard.ids == [("LogFault_GPU Error", 0)]
    assert on.watch.health().unusable_values == 1


def test_bad_bytes_and_half_lines_blind_nobody() -> None:
    on = Watched(SPIKE.replace("metricEvaluationDataPoints: 5", "metricEvaluationDataPoints: 1") + OOM)
    on.say(b"\xff\xfe\x00 garbage")
    on.watch.take(Rank(0), OUT, b"training_loss_step 2")
    on.watch.take(Rank(0), OUT, b"")
    assert on.heard.ids == []
    on.watch.take(Rank(0), OUT, b"5.5\n")
    assert [finding.value for finding in on.heard.findings] == [25.5]
    on.say(b"\xc3\x28 RuntimeError out of memory \xff")
    assert on.heard.ids[-1] == ("LogFault_GPU Error", 0)
    assert on.heard.findings[-1].excerpt == r"\xc3( RuntimeError out of memory \xff"


# ------------------------------------------------------------------------------------------------ what ours add


def test_selectors_choose_ranks_and_streams() -> None:
    on = Watched(
        "rules:\n"
        "- {name: first, logPattern: oops, kind: fault, ranks: 4}\n"
        "- {name: local, logPattern: oops, kind: fault, localRanks: 1, streams: stderr}\n",
        first_rank=4,
    )
    for rank in (4, 5):
        for stream in LogStream:
            on.say("oops", rank=rank, stream=stream)
    assert [(each.rule, each.rank, each.stream) for each in on.heard.findings] == [("first", 4, OUT), ("local", 5, ERR)]
    assert on.watch.rank_states()[Rank(4)].rules == ("first",)


def test_a_start_expected_from_each_rank_names_the_rank_that_is_missing() -> None:
    rules = "rules:\n- {name: up, logPattern: ready, expectedStartCutOffInSeconds: 10, expectedFrom: each}\n"
    on = Watched(rules, ranks=3)
    on.say("ready", rank=0)
    on.say("ready", rank=2)
    on.pass_to(11.0)
    assert on.heard.ids == [("LogHang_up", 1)]


def test_a_start_is_not_expected_on_a_node_without_the_selected_rank() -> None:
    rules = "rules:\n- {name: up, logPattern: ready, expectedStartCutOffInSeconds: 10, ranks: 0}\n"
    on = Watched(rules, first_rank=8)
    assert on.watch.next_deadline_s is None


def test_steps_and_checkpoints_are_read() -> None:
    on = Watched(
        "rules:\n"
        "- {name: step, kind: progress, mode: search, logPattern: 'step (?P<step>\\d+) done'}\n"
        "- {name: save, kind: checkpoint, checkpointKind: data, "
        "logPattern: '.*Saved (?P<path>\\S+) at (?P<step>\\w+)', stopPattern: 'The end'}\n"
    )
    on.say("INFO step 41 done", rank=1)
    on.say("Saved /ckpt/41 at 41")
    on.say("Saved /ckpt/x at final")
    on.say("The end")
    on.say("Saved /ckpt/42 at 42")
    assert on.heard.progress == [LogProgress(rule="step", rank=Rank(1), step=41)]
    assert on.heard.checkpoints == [LogCheckpoint(rule="save", rank=Rank(0), step=41, path="/ckpt/41", kind="data")]
    assert on.watch.health().unusable_values == 1


def test_progress_that_stops_is_a_hang() -> None:
    on = Watched(
        "rules:\n- {name: step, kind: progress, action: fault, logPattern: 'step (\\d+)', "
        "expectedRecurringFrequencyInSeconds: 2}\n"
    )
    on.say("step 1", rank=0)
    on.say("step 1", rank=1)
    on.pass_to(1.5)
    on.say("step 2", rank=0)
    on.pass_to(3.0)
    assert on.heard.ids == [("LogHang_step", 1)]

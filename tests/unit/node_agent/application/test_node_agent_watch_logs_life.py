"""How the watch over a node's ranks lives: restarts, reloads, its own health, output cut anywhere, one timer."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from log_rig import ERR, HANGING, JOB_START, OOM, OUT, SPIKE, TFLOPS, HandClock, Heard, Watched

from node_agent.adapters.log_engine import RuleMatcher
from node_agent.adapters.log_rules_yaml import parse_rules
from node_agent.application.log_ports import LineHit, LogFinding, RefusedRule, RuleFile
from node_agent.application.watch_logs import WatchLogs
from node_agent.domain.log_rule import LogRule, LogStream
from node_agent.domain.log_state import LogState
from service_kit.testing.virtual_clock import EPOCH, LoopClock, run_virtual
from training_topology.identity import LocalRank, Rank

# --------------------------------------------------------------------------------------------- time and restarts


def test_time_between_two_stages_is_not_held_against_a_rank() -> None:
    on = Watched(HANGING)
    on.say('[Epoch 0 Batch 1] "training_loss_step": 1')
    on.pass_to(100.0)
    on.watch.suspend()
    assert on.watch.next_deadline_s is None
    on.clock.at_s = 5_000.0
    on.watch.tick()
    on.watch.resume()
    assert on.watch.next_deadline_s == 5_200.0
    on.pass_to(5_199.0)
    assert on.heard.findings == []
    on.pass_to(5_201.0)
    assert on.heard.ids == [("LogHang_JobHangingDetection", 0)]


def test_a_new_start_forgets_and_a_stop_expects_nothing() -> None:
    on = Watched(JOB_START + OOM)
    on.say("RuntimeError out of memory")
    on.watch.stop()
    on.pass_to(1_000.0)
    assert on.heard.ids == [("LogFault_GPU Error", 0)]
    on.say("RuntimeError out of memory")
    assert on.watch.health().dropped_bytes == len("RuntimeError out of memory\n")
    on.watch.start(on.ranks)
    assert on.watch.next_deadline_s == 1_120.0
    on.say("RuntimeError out of memory")
    assert on.heard.ids[1:] == [("LogFault_GPU Error", 0)]


def test_a_replaced_rank_is_judged_anew_and_the_others_are_not() -> None:
    on = Watched(JOB_START + OOM)
    on.say("Experiment configuration")
    on.say("RuntimeError out of memory", rank=0)
    on.say("RuntimeError out of memory", rank=1)
    on.watch.renew(Rank(1), LocalRank(1))
    states = on.watch.rank_states()
    assert (states[Rank(0)].state, states[Rank(1)].state) == (LogState.FAULTED, LogState.WAITING)
    on.pass_to(1_000.0)
    assert on.watch.node_state().state is LogState.HEALTHY, "the job's start was announced before"


def test_a_rank_that_lives_on_keeps_its_place_and_its_begun_line() -> None:
    on = Watched(OOM)
    on.say("before")
    on.watch.take(Rank(0), OUT, b"Runtime")
    on.watch.start(on.ranks, continuing={Rank(0)})
    on.say("Error out of memory")
    assert [finding.offset for finding in on.heard.findings] == [len("before\n")]


def test_a_process_that_gets_another_rank_keeps_its_begun_line() -> None:
    on = Watched(OOM)
    on.watch.take(Rank(1), OUT, b"Runtime")
    on.watch.start({Rank(4): LocalRank(0), Rank(5): LocalRank(1)}, continuing={Rank(4), Rank(5)})
    on.say("Error out of memory", rank=5)
    assert on.heard.ids == [("LogFault_GPU Error", 5)]


def test_a_rank_that_left_is_expected_to_say_nothing() -> None:
    on = Watched(HANGING)
    for rank in (0, 1):
        on.say('[Epoch 0 Batch 1] "training_loss_step": 1', rank=rank)
    on.watch.leave(Rank(0))
    on.pass_to(1_000.0)
    assert on.heard.ids == [("LogHang_JobHangingDetection", 1)]


def test_the_last_words_of_a_rank_count_without_a_newline() -> None:
    on = Watched(OOM)
    on.watch.take(Rank(0), ERR, b"RuntimeError: out of memory")
    assert on.heard.findings == []
    on.watch.end(Rank(0), ERR)
    assert on.heard.ids == [("LogFault_GPU Error", 0)]
    on.watch.end(Rank(9), ERR)


# ------------------------------------------------------------------------------------------------------ reload


def test_rules_change_under_a_running_job_and_what_did_not_change_is_remembered() -> None:
    on = Watched(SPIKE + HANGING)
    for _ in range(4):
        on.say("training_loss_step 3")
    on.use(SPIKE + OOM)
    on.say("training_loss_step 3")
    on.say("RuntimeError out of memory", rank=1)
    assert on.heard.ids == [("LogSlow_LossSpikeDetection", 0), ("LogFault_GPU Error", 1)]
    assert on.watch.health().rules == 2


def test_a_rule_that_comes_late_does_not_wait_for_a_line_of_the_start() -> None:
    on = Watched(OOM)
    on.pass_to(500.0)
    on.use(JOB_START + HANGING)
    on.pass_to(5_000.0)
    assert on.heard.findings == []
    on.say('[Epoch 0 Batch 1] "training_loss_step": 1')
    on.pass_to(5_301.0)
    assert on.heard.ids == [("LogHang_JobHangingDetection", 0)]


def test_a_broken_file_leaves_the_rules_as_they_are_and_is_told() -> None:
    on = Watched(OOM)
    on.watch.use(RuleFile(error=RefusedRule(file="rules.yaml", line=3, rule="", reason="is not YAML")))
    on.say("RuntimeError out of memory")
    assert len(on.heard.findings) == 1
    assert on.watch.health().last_error == "rules.yaml:3: is not YAML"


# ------------------------------------------------------------------------------------------------ its own health


def test_the_watch_counts_what_it_sees() -> None:
    on = Watched(OOM)
    on.say("one\ntwo\r\nthree")
    on.say(b"x" * 100_000, rank=1)
    on.say("RuntimeError out of memory")
    health = on.watch.health()
    assert (health.lines, health.cut_lines, health.hits, health.findings) == (5, 0, 1, 1)
    on.watch.take(Rank(1), OUT, b"y" * 50_000)
    on.say("end", rank=1)
    assert on.watch.health().cut_lines == 1
    assert health.bytes == len("one\ntwo\r\nthree\n") + 100_001 + len("RuntimeError out of memory\n")


def test_whoever_cannot_take_a_finding_does_not_stop_the_watch() -> None:
    on = Watched(OOM.replace("GPU Error", "a") + OOM.replace("GPU Error", "b"))

    def fail(_finding: LogFinding) -> None:
        raise OSError("bus is gone")

    on.heard.on_log_finding = fail  # type: ignore[method-assign]
    on.say("RuntimeError out of memory")
    health = on.watch.health()
    assert (health.hits, health.errors) == (2, 2)
    assert "LogFault_b" in health.last_error
    assert "bus is gone" in health.last_error


class FailingMatcher:
    """application.log_ports.LogMatcher that cannot."""

    def __init__(self, _rules: Sequence[LogRule]) -> None:
        pass

    def match_block(self, data: bytes) -> Sequence[LineHit]:
        raise MemoryError(f"{len(data)} bytes")


def test_an_engine_that_fails_is_counted_and_the_output_goes_on() -> None:
    watch = WatchLogs(clock=HandClock(), reports=Heard(), make_matcher=FailingMatcher)
    watch.use(parse_rules(OOM.encode(), "rules.yaml"))
    watch.start({Rank(0): LocalRank(0)})
    watch.take(Rank(0), OUT, b"one\n")
    watch.take(Rank(0), OUT, b"two\n")
    assert watch.health().errors == 2
    assert watch.health().last_error == "rank 0 stdout, from byte 4: MemoryError('4 bytes')"


# --------------------------------------------------------------------------------------------------- chunking


ALL = JOB_START + SPIKE.replace("Points: 5", "Points: 2") + OOM
TEXTS = st.lists(
    st.sampled_from([b"training_loss_step 3\n", b"training_loss_step 1 \r", b"RuntimeError", b" out of memory\r\n",
                     b"Experiment configuration\n", b"\xff\x00", b"\n", b"x" * 40_000]),
    max_size=20,
).map(b"".join)  # fmt: skip


def told(chunks: Sequence[bytes]) -> list[Any]:
    on = Watched(ALL, ranks=1)
    for chunk in chunks:
        on.watch.take(Rank(0), OUT, chunk)
    on.watch.end(Rank(0), OUT)
    health = on.watch.health()
    return [*on.heard.findings, health.lines, health.hits, health.bytes]


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.lists(st.integers(min_value=0, max_value=200_000), max_size=12))
def test_where_the_output_is_cut_changes_no_finding(text: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    assert told([text[a:b] for a, b in pairwise(edges)]) == told([text])


def test_not_even_between_all_bytes() -> None:
    text = b"training_loss_step 3\ntraining_loss_step 4\r\nRuntimeError: out of memory\nExperiment configuration"
    assert told([bytes([byte]) for byte in text]) == told([text])


# ----------------------------------------------------------------------------------------- use in the agent's shell


class Shell:
    """How the agent wires it: output as it is read, and one timer that is moved when the deadline moves."""

    def __init__(self, watch: WatchLogs) -> None:
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.ticks = 0
        self.arm()

    def on_output(self, rank: Rank, stream: LogStream, data: bytes) -> None:
        """Called by the output adapter."""
        self._watch.take(rank, stream, data)
        self.arm()

    def arm(self) -> None:
        due_s = self._watch.next_deadline_s
        if self._timer is not None:
            if due_s == self._timer.when():
                return
            self._timer.cancel()
            self._timer = None
        if due_s is not None:
            self._timer = self._loop.call_at(due_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.ticks += 1
        self._watch.tick()
        self.arm()


def test_the_shell_needs_one_timer_and_no_polling() -> None:
    async def job() -> None:
        heard = Heard()
        watch = WatchLogs(clock=LoopClock(), reports=heard, make_matcher=RuleMatcher)
        watch.use(parse_rules(TFLOPS.encode(), "rules.yaml"))
        watch.start({Rank(rank): LocalRank(rank) for rank in range(8)})
        shell = Shell(watch)
        for _ in range(1_000):
            for rank in range(8):
                shell.on_output(Rank(rank), OUT, b"step 1 123.4TFLOPs\n")
            await asyncio.sleep(0.5)
        assert heard.findings == []
        assert shell.ticks <= 500 / 4, "about one in five seconds: a line moves the deadline away, the timer finds out"
        await asyncio.sleep(60.0)
        assert [(each.rule_id, each.rank) for each in heard.findings] == [("LogHang_TFLOPs", rank) for rank in range(8)]
        assert heard.findings[0].observed_at == EPOCH + timedelta(seconds=499.5 + 5)

    run_virtual(job())


def test_ten_megabytes_without_a_newline_need_little_memory_and_hide_nothing() -> None:
    on = Watched(OOM)
    for _ in range(160):
        on.watch.take(Rank(0), OUT, b"RuntimeError " * 5_000)
    on.say(" out of memory")
    assert on.heard.findings == [], "the line is looked at up to the limit only"
    on.say("RuntimeError out of memory")
    assert [finding.offset for finding in on.heard.findings] == [160 * 65_000 + len(" out of memory\n")]

"""Flags about ends: signals by name, limits in seconds, and one clear message for a mistake."""

from signal import Signals

import pytest

from node_agent.adapters.launcher_flags import parse_launch
from node_agent.domain.dead_man import DeadManPolicy, PlannerLost


def test_by_default_sigterm_is_a_notice_and_healthy_ranks_outlive_the_planner() -> None:
    grace = parse_launch(["train.py"], {}).grace
    assert grace.preemption == (Signals.SIGTERM,)
    assert grace.shutdown_signal is None
    assert grace.dead_man == DeadManPolicy(silence_s_max=60.0, on_lost=PlannerLost.KEEP)


def test_every_flag_is_read() -> None:
    argv = ["--preemption-signal", "sigusr1,SIGTERM", "--shutdown_signal", "sigkill", "--planner-silence-s", "7.5"]
    grace = parse_launch([*argv, "--on-planner-lost", "stop", "train.py"], {}).grace
    assert grace.preemption == (Signals.SIGUSR1, Signals.SIGTERM)
    assert grace.shutdown_signal is Signals.SIGKILL
    assert grace.dead_man == DeadManPolicy(silence_s_max=7.5, on_lost=PlannerLost.STOP)


def test_none_turns_the_notice_off() -> None:
    assert parse_launch(["--preemption-signal", "none", "train.py"], {}).grace.preemption == ()


def test_the_environment_gives_defaults_as_for_torchruns_flags() -> None:
    assert parse_launch(["train.py"], {"PET_PREEMPTION_SIGNAL": "SIGUSR2"}).grace.preemption == (Signals.SIGUSR2,)


@pytest.mark.parametrize(
    ("argv", "environ", "part"),
    [
        (["--preemption-signal", "SIGKILL"], {}, "--preemption-signal: 'SIGKILL' is not a signal that can be handled"),
        (["--preemption-signal", ""], {}, "--preemption-signal: name at least one signal"),
        (["--shutdown-signal", "SIGSTOP"], {}, "--shutdown-signal 'SIGSTOP': give a signal that ends a process"),
        (["--shutdown-signal", "15"], {}, "--shutdown-signal '15'"),
        (["--planner-silence-s", "0"], {}, "--planner-silence-s 0.0: must be more than 0 s"),
        (["--planner-silence-s", "nan"], {}, "--planner-silence-s nan"),
        (["--on-planner-lost", "panic"], {}, "invalid choice: 'panic'"),
        ([], {"PET_ON_PLANNER_LOST": "panic"}, "--on-planner-lost"),
    ],
)
def test_a_mistake_is_one_message_that_names_the_flag(
    capsys: pytest.CaptureFixture[str], argv: list[str], environ: dict[str, str], part: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_launch([*argv, "train.py"], environ)
    assert ended.value.code == 2
    assert part in capsys.readouterr().err

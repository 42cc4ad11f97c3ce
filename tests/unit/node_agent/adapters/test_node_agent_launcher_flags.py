"""`phalanx run`'s command line: torchrun's flags keep their meaning, and a mistake gets one clear message."""

from pathlib import Path
from signal import Signals

import pytest

from node_agent.adapters.launcher_flags import check_program, parse_launch
from node_agent.application.ports import ProgramKind
from node_agent.domain.checkpoint_check import CheckLevel
from node_agent.domain.hang_policies import DetectionMode, DetectionPolicy

WORDS = (
    "nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval start-method "
    "event-log-handler role log-dir redirects tee local-ranks-filter duplicate-stdout-filters duplicate-stderr-filters "
    "node-rank master-addr master-port local-addr logs-specs numa-binding signals-to-handle shutdown-timeout"
)
TORCHRUN = WORDS.split()
VALUES = {
    "nnodes": "2",
    "nproc-per-node": "2",
    "max-restarts": "1",
    "monitor-interval": "0.5",
    "start-method": "fork",
    "redirects": "3",
    "tee": "0:1",
    "local-ranks-filter": "0",
    "node-rank": "1",
    "master-port": "29500",
    "signals-to-handle": "SIGTERM",
    "shutdown-timeout": "5",
}


def fails(capsys: pytest.CaptureFixture[str], *argv: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(SystemExit) as ended:
        parse_launch(argv, environ or {})
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("flag", TORCHRUN)
def test_every_flag_of_torchrun_is_taken_in_both_spellings(flag: str) -> None:
    value = VALUES.get(flag, "word")
    for spelling in (flag, flag.replace("-", "_")):
        options = parse_launch([f"--{spelling}", value, "train.py"], {})
        assert options.program == "train.py"


@pytest.mark.parametrize("switch", ["standalone", "module", "no-python", "run-path", "virtual-local-rank"])
def test_every_switch_of_torchrun_is_taken_in_both_spellings(switch: str) -> None:
    for spelling in (switch, switch.replace("-", "_")):
        assert parse_launch([f"--{spelling}", "train"], {}).program == "train"


def test_torchruns_flags_are_all_known_here() -> None:
    run = pytest.importorskip("torch.distributed.run")
    mine = {*TORCHRUN, "standalone", "module", "no-python", "run-path", "virtual-local-rank"}
    theirs = {
        string[2:]
        for action in run.get_args_parser()._actions
        for string in action.option_strings
        if string.startswith("--") and "_" not in string and string != "--help"
    }
    assert theirs <= mine, "torch has a new flag: take it, or say in --help that it has no effect"


def test_everything_after_the_script_is_the_scripts() -> None:
    options = parse_launch(["--nproc-per-node", "2", "train.py", "--nnodes", "9", "-m", "--", "x"], {})
    assert options.args == ("--nnodes", "9", "-m", "--", "x")
    assert options.spec.nnodes == 1


def test_defaults() -> None:
    options = parse_launch(["train.py"], {})
    assert (options.spec.nnodes, options.spec.nproc_per_node, options.spec.spares) == (1, 1, 0)
    assert (options.spec.restarts_max, options.spec.window_s) == (3, 3600.0)
    assert options.standby
    assert options.node_rank is None
    assert options.terminal(0).stdout
    assert options.terminal(0).stderr
    assert options.notes == ()


def test_a_range_of_nodes_is_the_minimum_and_spares(capsys: pytest.CaptureFixture[str]) -> None:
    options = parse_launch(["--nnodes", "2:5", "train.py"], {})
    assert (options.spec.nnodes, options.spec.spares) == (2, 3)
    assert "drop --spares" in fails(capsys, "--nnodes", "2:3", "--spares", "1", "train.py")


def test_pet_variables_are_defaults_and_flags_win() -> None:
    environ = {"PET_NPROC_PER_NODE": "4", "PET_MAX_RESTARTS": "7", "PET_RDZV_ID": "llm", "PET_NO_PYTHON": "1"}
    options = parse_launch(["--max-restarts", "2", "prog"], environ)
    assert options.spec.nproc_per_node == 4
    assert options.spec.restarts_max == 2
    assert options.job_id == "llm"
    assert options.kind is ProgramKind.EXECUTABLE


def test_a_bad_pet_variable_is_reported_as_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--max-restarts" in fails(capsys, "train.py", environ={"PET_MAX_RESTARTS": "many"})


def test_job_id_has_two_names() -> None:
    assert parse_launch(["--rdzv-id", "a", "t.py"], {}).job_id == "a"
    assert parse_launch(["--job-id", "b", "t.py"], {}).job_id == "b"
    assert parse_launch(["--rdzv-id", "none", "t.py"], {}).job_id == ""


def test_redirects_tee_and_filter_decide_what_the_terminal_shows() -> None:
    options = parse_launch(["-r", "0:3,1:1", "-t", "0:2", "--local-ranks-filter", "0,1", "t.py"], {})
    shown = [(options.terminal(rank).stdout, options.terminal(rank).stderr) for rank in range(3)]
    assert shown == [(False, True), (False, True), (False, False)]


def test_flags_without_effect_are_named_once_each() -> None:
    options = parse_launch(["--rdzv-backend", "c10d", "--monitor-interval", "0.1", "t.py"], {})
    assert len(options.notes) == 2
    assert "c10d" in options.notes[0]


def test_endpoint_the_torchrun_ways() -> None:
    assert parse_launch(["--nnodes", "2", "--rdzv-endpoint", "h:1", "t.py"], {}).endpoint == "h:1"
    assert parse_launch(["--nnodes", "2", "--master-addr", "h", "t.py"], {}).endpoint == "h:29500"
    assert parse_launch(["--nnodes", "2", "--master-addr", "h", "--master-port", "7", "t.py"], {}).endpoint == "h:7"
    assert parse_launch(["--standalone", "--rdzv-endpoint", "h:1", "t.py"], {}).endpoint == ""


def test_the_bus_comes_from_the_flag_or_the_environment() -> None:
    assert parse_launch(["t.py"], {"NATS_URL": "nats://e:1"}).nats_url == "nats://e:1"
    assert parse_launch(["--nats-url", "nats://f:1", "t.py"], {"NATS_URL": "nats://e:1"}).nats_url == "nats://f:1"


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["--bogus", "t.py"], "--bogus"),
        ([], "no script is given"),
        (["--nproc-per-node", "2"], "no script is given"),
        (["--nnodes", "0", "t.py"], "--nnodes"),
        (["--nnodes", "3:2", "t.py"], "--nnodes"),
        (["--nnodes", "two", "t.py"], "--nnodes"),
        (["--nproc-per-node", "0", "t.py"], "--nproc-per-node"),
        (["--nproc-per-node", "tpu", "t.py"], "auto, cpu or gpu"),
        (["--nproc-per-node", "5000", "t.py"], "1024"),
        (["--max-restarts", "-1", "t.py"], "--max-restarts"),
        (["--restart-window", "0", "t.py"], "--restart-window"),
        (["--stop-grace", "-1", "t.py"], "--stop-grace"),
        (["--redirects", "4", "t.py"], "--redirects"),
        (["--tee", "0:9", "t.py"], "--tee"),
        (["--local-ranks-filter", "a", "t.py"], "--local-ranks-filter"),
        (["--signals-to-handle", "SIGKILL", "t.py"], "SIGKILL"),
        (["--signals-to-handle", "", "t.py"], "at least one"),
        (["--no-python", "-m", "t.py"], "exclude each other"),
        (["--node-rank", "-1", "t.py"], "--node-rank"),
    ],
)
def test_a_mistake_gets_one_message_that_names_it(
    capsys: pytest.CaptureFixture[str], argv: list[str], part: str
) -> None:
    said = fails(capsys, *argv).splitlines()
    assert part in said[0]
    assert said[0].startswith("phalanx run: ")
    assert said[1:] == ["phalanx run --help lists the flags"]


def test_help_teaches_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_launch(["--help"], {})
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "phalanx run --nproc-per-node 4 train.py" in said
    assert "torchrun: 0" in said, "a default that differs from torchrun's is said"


def test_signals_keep_their_order_and_no_double() -> None:
    options = parse_launch(["--signals-to-handle", "SIGUSR1, sigterm,SIGUSR1", "t.py"], {})
    assert options.signals == (Signals.SIGUSR1, Signals.SIGTERM)


def test_gpu_without_a_gpu_is_said_and_auto_falls_back_to_cpus(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node_agent.adapters.launch_options.visible_gpus", lambda _environ: 0)
    assert "no NVIDIA GPU" in fails(capsys, "--nproc-per-node", "gpu", "t.py")
    assert parse_launch(["--nproc-per-node", "auto", "t.py"], {}).spec.nproc_per_node >= 1


def test_gpus_are_counted_without_the_driver(tmp_path: Path) -> None:
    from node_agent.adapters.launch_options import visible_gpus

    for number in range(4):
        (tmp_path / str(number)).mkdir()
    assert visible_gpus({}, tmp_path) == 4
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "0,2"}, tmp_path) == 2
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == 0
    assert visible_gpus({}, tmp_path / "none") == 0


def test_the_program_is_looked_at_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "t.py").write_text("")
    cases = {
        ("t.py",): "",
        ("missing.py",): "does not exist",
        ("package",): "is a directory",
        ("-m", "any.module"): "",
        ("--no-python", "no-such-program-here"): "not found",
        ("--no-python", "sh"): "",
    }
    for argv, part in cases.items():
        problem = check_program(parse_launch(argv, {}), tmp_path)
        assert (part in problem) if part else problem == "", (argv, problem)


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (("--job-id", "x" * 257), "--job-id"),
        (("--job-id", "a\nb"), "printable"),
        (("--node-id", "\x1b[2J"), "printable"),
        (("--cluster", "\udcff"), "printable"),
        (("--restart-window", "nan"), "--restart-window nan"),
        (("--restart-window", "inf"), "--restart-window inf"),
        (("--shutdown-timeout", "inf"), "--shutdown-timeout inf"),
        (("--stop-grace", "99999"), "--stop-grace 99999.0"),
        (("--stop-grace", "nan"), "--stop-grace nan"),
        (("--max-restarts", "100001"), "--max-restarts 100001"),
        (("--spares", "10001"), "--spares 10001"),
    ],
)
def test_values_that_no_message_could_carry_are_refused_by_their_flag(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, str], part: str
) -> None:
    said = fails(capsys, *argv, "t.py")
    assert part in said
    assert said.count("\n") == 2, "one message, and where to read more"


def test_odd_but_printable_names_are_taken() -> None:
    assert parse_launch(["--job-id", "we ird/../j.ob*>\u00fc", "t.py"], {}).job_id == "we ird/../j.ob*>\u00fc"


def test_checkpoint_flags(tmp_path: Path) -> None:
    options = parse_launch(["train.py"], {}).checkpoints
    assert (options.level, options.folder) == (CheckLevel.EXISTS, None)
    argv = ["--checkpoint-check", "SIZE", "--checkpoint-dir", "ckpt", "--checkpoint-pattern", "s{step}/r{rank}.pt"]
    options = parse_launch([*argv, "train.py"], {}).checkpoints
    assert (options.level, options.folder, options.pattern.has_rank) == (CheckLevel.SIZE, Path("ckpt"), True)
    assert parse_launch(["train.py"], {"PET_CHECKPOINT_CHECK": "none"}).checkpoints.level is CheckLevel.NONE
    (tmp_path / "train.py").write_text("")
    launch = parse_launch([*argv, "train.py"], {})
    assert check_program(launch, tmp_path) == "", "the script may create it"
    (tmp_path / "ckpt").write_text("")
    assert "is not a folder" in check_program(launch, tmp_path)


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["--checkpoint-check", "closely"], "choose one of none, exists, size, checksum"),
        (["--checkpoint-pattern", "{step}"], "needs --checkpoint-dir"),
        (["--checkpoint-dir", "c", "--checkpoint-pattern", "step"], "needs {step} once"),
        (["--checkpoint-dir", "s3://bucket/c"], "an object store cannot be watched"),
    ],
)
def test_checkpoint_flags_that_cannot_be_used(capsys: pytest.CaptureFixture[str], argv: list[str], word: str) -> None:
    assert word in fails(capsys, *argv, "train.py")


def test_hang_detection_is_on_and_its_limits_can_be_set() -> None:
    assert parse_launch(["train.py"], {}).detection == DetectionPolicy()
    argv = ["--hang-detection", "observe", "--hang-idle", "3", "--hang-silence", "60", "train.py"]
    given = parse_launch(argv, {}).detection
    assert (given.mode, given.hang.idle_s, given.silence_s) == (DetectionMode.OBSERVE, 3.0, 60.0)


@pytest.mark.parametrize("flag", ["--hang-idle", "--hang-silence"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], flag: str, value: str) -> None:
    assert f"{flag} " in fails(capsys, f"{flag}={value}", "train.py")


def test_log_rules_come_from_the_flag_else_from_the_environment(tmp_path: Path) -> None:
    given = ["--log-rules", "a.yaml", "--log-rules", "b.yaml", "t.py"]
    environ = {"PHALANX_LOG_RULES": "c.yaml:d.yaml"}
    assert parse_launch(given, environ).log_rules == (Path("a.yaml"), Path("b.yaml"))
    assert parse_launch(["t.py"], environ).log_rules == (Path("c.yaml"), Path("d.yaml"))
    assert parse_launch(["t.py"], {}).log_rules == ()
    (tmp_path / "t.py").write_text("")
    assert "a.yaml: cannot be read" in check_program(parse_launch(given, {}), tmp_path)

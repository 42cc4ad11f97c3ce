"""`phalanx run`: torchrun's flags (torch 2.13, torch/distributed/run.py), both spellings, PET_* defaults, and ours.

Pure: reads the given arguments and environment and nothing else; the existence of the script is checked by
`check_program`.
"""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from fault_contracts.agent import JobSpec
from node_agent.adapters.checkpoint_flags import add_checkpoint_flags, read_checkpoints
from node_agent.adapters.grace_flags import add_grace_flags, read_grace
from node_agent.adapters.hang_flags import add_hang_flags, read_detection
from node_agent.adapters.launch_options import (
    BadOption,
    LaunchOptions,
    read_local_ranks,
    read_name,
    read_nnodes,
    read_nproc,
    read_paths,
    read_signals,
    read_streams,
)
from node_agent.adapters.log_rule_files import rule_files_problem
from node_agent.adapters.place_flags import add_place_flags, read_node_labels, read_node_rank
from node_agent.adapters.policy_flags import add_policy_flag, read_policy
from node_agent.adapters.status_flags import add_status_flags, read_status
from node_agent.application.ports import ProgramKind

EXAMPLES = """\
examples:
  phalanx run --nproc-per-node 4 train.py --epochs 3
      four ranks on this machine; servers and services start and stop with the job
  phalanx run --nnodes 2 --nproc-per-node 8 --job-id llm --rdzv-endpoint node0:29400 train.py
      the same line on two machines; the one that owns the address node0 hosts the servers
  phalanx run --nnodes 2 --spares 1 --nproc-per-node 8 --job-id llm --nats-url nats://bus:4222 train.py
      on three machines with a running Phalanx; the third waits as a spare

Differs from torchrun: --max-restarts is 3 (torchrun: 0) and counts inside --restart-window only.
"""

_JOB = "name of the job, the same on all nodes (default: script, time, pid)"
_LOG_RULES = "watch the ranks' output by these rules (docs/log-rules.md); repeatable, SIGHUP reads them again"
_IGNORED = {
    "rdzv_backend": "--rdzv-backend {} has no effect: ranks meet through the planner",
    "rdzv_conf": "--rdzv-conf has no effect: ranks meet through the planner",
    "monitor_interval": "--monitor-interval has no effect: nothing is polled, deaths are seen at once",
    "start_method": "--start-method has no effect: workers are forked from a prepared process (--no-standby: spawned)",
    "event_log_handler": "--event-log-handler has no effect: events go to the bus",
    "logs_specs": "--logs-specs has no effect: logs have torchrun's default layout",
    "numa_binding": "--numa-binding has no effect in this version",
    "duplicate_stdout_filters": "--duplicate-stdout-filters has no effect in this version",
    "duplicate_stderr_filters": "--duplicate-stderr-filters has no effect in this version",
}


class _Parser(argparse.ArgumentParser):
    """Says one line and where to read more, with exit code 2."""

    def error(self, message: str) -> NoReturn:
        if "required: SCRIPT" in message:
            message = "no script is given; the command ends with: SCRIPT [arguments of the script]"
        self.exit(2, f"phalanx run: {message}\nphalanx run --help lists the flags\n")


def _flag(parser: Any, name: str, *, short: str = "", **options: Any) -> None:
    names = [f"--{name}"] if "-" not in name else [f"--{name}", f"--{name.replace('-', '_')}"]
    parser.add_argument(*([short] if short else []), *names, **options)


def _switch(parser: Any, name: str, help_: str, *, short: str = "") -> None:
    _flag(parser, name, short=short, action="store_true", help=help_)


def _parser(prog: str) -> _Parser:
    parser = _Parser(
        prog=prog,
        description="Train with fault detection and fast recovery. Takes torchrun's flags; scripts run unmodified.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    size = parser.add_argument_group("size of the job")
    _flag(size, "nnodes", default="1", metavar="N|N:M", help="nodes that train; 2:3 is 2 and 1 spare (default 1)")
    _flag(size, "nproc-per-node", default="1", metavar="N", help="ranks on each node: a number, auto, cpu or gpu")
    _flag(size, "spares", type=int, metavar="N", help="nodes that wait to take over from a lost one (default 0)")
    add_place_flags(size, _flag)
    restarts = parser.add_argument_group("recovery")
    _flag(restarts, "max-restarts", type=int, default=3, metavar="N", help="restarts inside the window (default 3)")
    _flag(restarts, "restart-window", type=float, default=3600.0, metavar="S", help="its length (default 3600 s)")
    add_policy_flag(restarts, _flag)
    _flag(restarts, "stop-grace", type=float, default=0.5, metavar="S", help="from SIGTERM to SIGKILL in a recovery")
    _flag(restarts, "barrier-timeout", type=float, default=10.0, metavar="S", help="to reach the in-process barrier")
    _flag(restarts, "shutdown-timeout", type=float, default=30.0, metavar="S", help="the same when you stop the job")
    _flag(restarts, "signals-to-handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", metavar="NAMES", help="that stop it")
    _switch(restarts, "no-standby", "spawn workers instead of forking them from a prepared process: slower")
    _flag(restarts, "preload", action="append", metavar="MODULE", help="import before forking, as torch is; repeatable")
    add_checkpoint_flags(parser, _flag)
    add_grace_flags(parser.add_argument_group("end of a node, and of the planner"), _flag)
    _flag(restarts, "log-rules", action="append", metavar="FILE", help=_LOG_RULES)
    hangs = parser.add_argument_group("hang detection")
    add_hang_flags(lambda name, **options: _flag(hangs, name, **options))
    _add_meeting(parser.add_argument_group("meeting of the nodes"))
    _add_output(parser.add_argument_group("output"))
    add_status_flags(parser.add_argument_group("status API of the agent, read-only"), _flag)
    _add_ignored(parser.add_argument_group("accepted for torchrun's sake, without effect"))
    program = parser.add_argument_group("program")
    _switch(program, "module", "SCRIPT is a module, as in python -m", short="-m")
    _switch(program, "no-python", "SCRIPT is a program of its own, not Python")
    _switch(program, "run-path", "SCRIPT is run in the prepared interpreter, which is what happens anyway")
    _switch(program, "virtual-local-rank", "each rank sees its own GPU alone, as device 0, with LOCAL_RANK 0")
    _flag(program, "role", default="default", metavar="NAME", help="ROLE_NAME of the ranks")
    program.add_argument("script", metavar="SCRIPT")
    program.add_argument("script_args", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script")
    return parser


def _add_meeting(group: Any) -> None:
    group.add_argument("--job-id", "--job_id", "--rdzv-id", "--rdzv_id", dest="job_id", default="", help=_JOB)
    _flag(group, "node-id", default="", metavar="NAME", help="name of this node (default: the host's)")
    _flag(group, "rdzv-endpoint", default="", metavar="HOST:PORT", help="where several nodes meet on an embedded bus")
    _flag(group, "master-addr", default="", metavar="HOST", help="the same, torchrun's static way")
    _flag(group, "master-port", type=int, metavar="PORT")
    _flag(group, "local-addr", default="", metavar="ADDR", help="address at which other nodes reach this one")
    _switch(group, "standalone", "one machine, everything embedded; the default without an endpoint")
    _flag(group, "nats-url", default="", metavar="URL", help="use this bus and its services (also: NATS_URL)")
    _flag(group, "cluster", default="", metavar="NAME", help="name of the cluster on a shared bus (PHALANX_CLUSTER)")


def _add_output(group: Any) -> None:
    _flag(group, "log-dir", default="", metavar="DIR", help="files of each rank (default: logs in --data-dir)")
    _flag(group, "redirects", short="-r", default="0", metavar="BITS", help="keep from the terminal: 1, 2, 3, 0:1,1:3")
    _flag(group, "tee", short="-t", default="0", metavar="BITS", help="show although redirected")
    _flag(group, "local-ranks-filter", default="", metavar="RANKS", help="show these local ranks only")
    _flag(group, "data-dir", default=".phalanx", metavar="DIR", help="servers, outbox and logs (default .phalanx)")


def _add_ignored(group: Any) -> None:
    _flag(group, "rdzv-backend", metavar="NAME")
    _flag(group, "rdzv-conf", metavar="CONF")
    _flag(group, "monitor-interval", type=float, metavar="S")
    _flag(group, "start-method", choices=["spawn", "fork", "forkserver"])
    _flag(group, "event-log-handler", metavar="NAME")
    _flag(group, "logs-specs", metavar="NAME")
    _flag(group, "numa-binding", metavar="MODE")
    _flag(group, "duplicate-stdout-filters", metavar="WORDS")
    _flag(group, "duplicate-stderr-filters", metavar="WORDS")


def parse_launch(argv: Sequence[str], environ: Mapping[str, str], *, prog: str = "phalanx run") -> LaunchOptions:
    """Read the command line.

    Raises:
        SystemExit: code 2 after one clear message, or 0 after --help.
    """
    parser = _parser(prog)
    _use_environment(parser, environ)
    given = parser.parse_args(argv)
    try:
        return _options(given, environ)
    except BadOption as error:
        parser.error(str(error))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        flag = {"restarts_max": "max_restarts", "window_s": "restart_window", "stop_grace_s": "stop_grace"}.get(
            field, field
        )
        parser.error(f"--{flag.replace('_', '-')} {first['input']}: {first['msg']}")


def check_program(options: LaunchOptions, cwd: Path) -> str:
    """What is wrong with program, rule files or folder of checkpoints, as a sentence; empty when it can be run.

    A module shows it when it starts.
    """
    problem = rule_files_problem([cwd / path for path in options.log_rules]) or options.checkpoints.problem(cwd)
    if problem:
        return problem
    path = cwd / options.program
    match options.kind:
        case ProgramKind.MODULE:
            return ""
        case ProgramKind.EXECUTABLE:
            found = shutil.which(options.program) or shutil.which(str(path))
            return "" if found else f"the program {options.program} is not found or not executable"
        case ProgramKind.SCRIPT:
            if path.is_dir():
                return f"{options.program} is a directory; give the script in it, or -m for a package"
            return "" if path.is_file() else f"the script {options.program} does not exist (looked in {cwd})"


def _use_environment(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """As torchrun: PET_<FLAG> is the default of a flag."""
    for action in parser._actions:
        text = environ.get(f"PET_{action.dest.upper()}")
        if action.dest == "job_id":
            text = environ.get("PET_RDZV_ID", text)
        if text is None or not action.option_strings or action.dest == "help":
            continue
        if action.nargs == 0:
            action.default = text.strip().lower() not in ("", "0", "false")
        else:
            # argparse passes a text default through the flag's type, so a bad value is reported as the flag's.
            action.default = [text] if action.dest in ("preload", "log_rules") else text


def _options(given: argparse.Namespace, environ: Mapping[str, str]) -> LaunchOptions:
    nnodes, spares = read_nnodes(given.nnodes)
    if given.spares is not None:
        if spares:
            raise BadOption(f"--nnodes {given.nnodes} names {spares} spares already; drop --spares")
        spares = given.spares
    _check_numbers(given, spares)
    if given.no_python and given.module:
        raise BadOption("--no-python and --module exclude each other")
    kind = ProgramKind.SCRIPT
    if given.module:
        kind = ProgramKind.MODULE
    elif given.no_python and not given.run_path:
        kind = ProgramKind.EXECUTABLE
    return LaunchOptions(
        spec=JobSpec(
            nnodes=nnodes,
            nproc_per_node=read_nproc(given.nproc_per_node, environ),
            spares=spares,
            restarts_max=given.max_restarts,
            window_s=given.restart_window,
            stop_grace_s=given.stop_grace,
            barrier_s=given.barrier_timeout,
            policy=read_policy(given),
        ),
        kind=kind,
        program=given.script,
        args=tuple(given.script_args),
        job_id=read_name("--job-id", "" if given.job_id == "none" else given.job_id),
        node_id=read_name("--node-id", given.node_id),
        node_rank=read_node_rank(given),
        node_labels=read_node_labels(given, environ),
        role=given.role,
        virtual_local_rank=given.virtual_local_rank,
        endpoint=_endpoint(given),
        nats_url=given.nats_url or environ.get("NATS_URL", ""),
        cluster=read_name("--cluster", given.cluster or environ.get("PHALANX_CLUSTER", "") or "local"),
        local_addr=read_name("--local-addr", given.local_addr),
        data_dir=Path(given.data_dir),
        log_dir=Path(given.log_dir) if given.log_dir else None,
        redirects=read_streams("--redirects", given.redirects),
        tee=read_streams("--tee", given.tee),
        local_ranks_shown=read_local_ranks(given.local_ranks_filter),
        signals=read_signals(given.signals_to_handle),
        shutdown_timeout_s=given.shutdown_timeout,
        grace=read_grace(given),
        standby=not given.no_standby,
        preload=tuple(given.preload or ()),
        checkpoints=read_checkpoints(given),
        detection=read_detection(given),
        log_rules=read_paths(given.log_rules, environ.get("PHALANX_LOG_RULES", "")),
        status=read_status(given, environ),
        notes=tuple(
            sentence.format(getattr(given, dest)) for dest, sentence in _IGNORED.items() if getattr(given, dest)
        ),
    )


def _check_numbers(given: argparse.Namespace, spares: int) -> None:
    for flag, value, least in (
        ("--spares", spares, 0),
        ("--max-restarts", given.max_restarts, 0),
        ("--stop-grace", given.stop_grace, 0),
        ("--shutdown-timeout", given.shutdown_timeout, 0),
    ):
        if value < least:
            raise BadOption(f"{flag} {value}: must not be negative")
    for flag, seconds in (("--restart-window", given.restart_window), ("--shutdown-timeout", given.shutdown_timeout)):
        if not math.isfinite(seconds):
            raise BadOption(f"{flag} {seconds}: give a number of seconds")
    if given.restart_window <= 0:
        raise BadOption(f"--restart-window {given.restart_window}: must be more than 0 s")
    if not 0 < given.barrier_timeout <= 3_600:
        raise BadOption(f"--barrier-timeout {given.barrier_timeout}: must be more than 0 s and at most 3600 s")


def _endpoint(given: argparse.Namespace) -> str:
    if given.standalone:
        return ""
    if given.rdzv_endpoint:
        return str(given.rdzv_endpoint)
    if given.master_addr and given.nnodes != "1":
        return f"{given.master_addr}:{given.master_port or 29500}"
    return ""

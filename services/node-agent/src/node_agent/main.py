"""The launcher role: one agent that runs the ranks of one node of one job. Wiring, top to bottom.

`phalanx run` (the cli) gives it an embedded stack; `python -m node_agent.main` needs a bus in NATS_URL.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from signal import SIGHUP

from pydantic import ValidationError

from fault_contracts.envelope import derived_id
from node_agent.adapters.agent_folder import make_log_dir, take_agent_folder
from node_agent.adapters.announcer import TerminalAnnouncer
from node_agent.adapters.checkpoint_watch import checkpoint_discovery
from node_agent.adapters.command_journal import SqliteCommandJournal
from node_agent.adapters.finding_rules import find_in_output
from node_agent.adapters.free_port import ReservedPort
from node_agent.adapters.grace_options import GraceOptions
from node_agent.adapters.hang_detection import watch_hangs
from node_agent.adapters.launch_options import LaunchOptions
from node_agent.adapters.launch_place import LaunchPlace
from node_agent.adapters.launcher_flags import check_program, parse_launch
from node_agent.adapters.leave_signals import leave_on_signals
from node_agent.adapters.log_watch import log_watch, on_hangup
from node_agent.adapters.own_address import own_address
from node_agent.adapters.prepare_workers import prepare_workers, worker_processes
from node_agent.adapters.status_api import StatusApi, StatusUnavailable
from node_agent.adapters.status_options import TOKEN_VARIABLE
from node_agent.adapters.terminal import Terminal
from node_agent.adapters.worker_output import rank_files
from node_agent.adapters.worker_processes import ProcessWorkers
from node_agent.adapters.worker_socket import WorkerSocket
from node_agent.application.agent_life import AgentIdentity, AgentLife, JobProgram
from node_agent.application.attend_job import JobAttendance
from node_agent.application.block_reports import BlockReports
from node_agent.application.catch_up import CatchUp
from node_agent.application.dead_man import DeadMan
from node_agent.application.end_job import JobEnd
from node_agent.application.every_tap import EveryTap
from node_agent.application.obey_commands import CommandIntake
from node_agent.application.observe_exits import ExitObserver
from node_agent.application.outgoing import Outgoing
from node_agent.application.output_tap import OutputTap
from node_agent.application.relay_worker_reports import WorkerReportRelay
from node_agent.application.report_agent import AgentReporter
from node_agent.application.report_rank_faults import RankFaultReporter
from node_agent.application.request_checkpoint import CheckpointAsk
from node_agent.application.restart_in_place import InPlaceRestart
from node_agent.application.start_workers import WorkerStart
from node_agent.application.stop_in_process import InProcessStop
from node_agent.application.stop_workers import WorkerStop
from node_agent.application.tell_stragglers import tell_stragglers
from node_agent.domain.job_end import ExitCode
from node_agent.domain.worker_env import base_env
from node_agent.settings import AgentSettings
from service_kit.clock import SystemClock
from service_kit.command_signature import CommandKeys
from service_kit.errors import BusUnavailable, PermanentError
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.logging import configure_logging
from service_kit.outbox import Outbox
from service_kit.ports import Bus

NAME = "node-agent"
SEED_VARIABLE = "NATS_NKEY_SEED"
STEM_MAX = 50
"""Characters of the script's name in a job id: with time and pid below the limit of a subject's token."""


def job_id_of(options: LaunchOptions) -> str:
    """The given name, else one that no other run has. Nodes of one job must agree, so theirs has no time in it."""
    stem = "".join(c if c.isprintable() else "_" for c in Path(options.program).stem)[:STEM_MAX] or "job"
    if options.job_id:
        return options.job_id
    if options.spec.nnodes > 1 or options.spec.spares:
        return stem
    return f"{stem}-{SystemClock().now():%Y%m%d-%H%M%S}-{os.getpid()}"


async def run_launcher(options: LaunchOptions, settings: AgentSettings, *, job_id: str, terminal: Terminal) -> int:
    """Take part in one job; returns the exit code of `phalanx run`."""
    announcer = TerminalAnnouncer(terminal)
    try:
        folder = take_agent_folder(options.data_dir, job_id=job_id, node_id=options.node_id, host=socket.gethostname())
        log_dir = make_log_dir(options.log_dir or options.data_dir / "logs")
    except OSError as error:
        announcer.say(f"cannot set up the folders of this run: {error}")
        return ExitCode.CANNOT_CREATE
    place = LaunchPlace(job_id=job_id, folder=folder, log_dir=log_dir, announcer=announcer, terminal=terminal)
    try:
        async with AsyncExitStack() as stack:
            log = stack.enter_context(folder.agent_log.open("a", encoding="utf-8", buffering=1))
            configure_logging(service=NAME, level=settings.log_level, log_format=settings.log_format, stream=log)
            return await _attend(options, settings, place, stack)
    except BusUnavailable as error:
        announcer.say(str(error))
        return ExitCode.BUS_UNAVAILABLE
    except PermanentError as error:
        announcer.say(f"the bus refuses this agent: {error}")
        return ExitCode.BUS_UNAVAILABLE
    except StatusUnavailable as error:
        announcer.say(str(error))
        return ExitCode.BAD_SETTINGS
    finally:
        os.close(folder.lock_fd)


async def _attend(options: LaunchOptions, settings: AgentSettings, place: LaunchPlace, stack: AsyncExitStack) -> int:
    clock, announcer, folder = SystemClock(), place.announcer, place.folder
    processes = worker_processes(options, clock=clock, terminal=place.terminal, nursery_log=folder.nursery_log)
    stack.push_async_callback(processes.close)
    life = _life(options, settings, place, clock)
    outbox = Outbox(folder.outbox)
    stack.push_async_callback(outbox.close)
    outgoing = Outgoing(life.identity, clock, outbox)
    blocks = BlockReports(life, outgoing, clock, announcer)
    checkpoints = await checkpoint_discovery(options.checkpoints, life, outgoing, clock, announcer, stack)
    relay = WorkerReportRelay(life, outgoing, clock, announcer, blocks, checkpoints)
    status = StatusApi(life, processes, outbox, clock, announcer)
    status.describer.bad_clients = lambda: relay.bad_clients
    status.open(options.status, folder.path)
    stack.push_async_callback(status.close)
    worker_socket = WorkerSocket(owner_of=processes.owner_of, reports=relay)
    stack.push_async_callback(worker_socket.close)
    await worker_socket.start()
    env = {**life.program.base_env, "PHALANX_WORKER_SOCKET": str(worker_socket.path)}
    life.program = replace(life.program, base_env=env)
    processes.on_exit(ExitObserver(life, outgoing, clock, announcer).on_exit)
    faults = RankFaultReporter(life, outgoing, processes, place.evidence(), clock, announcer)
    stalls = watch_hangs(life, processes, outgoing, faults, relay, clock, announcer, options.detection, stack)
    leave = leave_on_signals(options, life, processes, worker_socket, outgoing, clock, announcer)
    logs = None
    taps: list[OutputTap] = find_in_output(settings, life, processes, outgoing, clock, announcer, stack)
    if options.log_rules:
        logs = log_watch(options.log_rules, life, outgoing, faults, relay, clock, announcer)
        taps.append(logs.feed)
        status.describer.log_states = logs.states
        asyncio.get_running_loop().add_signal_handler(SIGHUP, on_hangup(logs.reload.ask, leave.on_signal))
        logs.run(stack)
    if taps:
        processes.on_output(EveryTap(tuple(taps), announcer))
    # Beside the connection: the import of torch takes seconds, and so may a bus that starts as we do.
    preparing = asyncio.create_task(prepare_workers(processes, env, announcer))
    stack.callback(preparing.cancel)
    wiring = asyncio.create_task(
        _control(options.grace, settings, place, life, processes, worker_socket, blocks, outgoing, status, stack)
    )
    if not await _done_before_the_end(wiring, life):
        assert life.exit_code is not None, "ended is set together with the code"
        return int(life.exit_code)
    attendance, bus = wiring.result()
    stalls.attach(bus)
    relay.step_times.bus = bus
    stack.push_async_callback((await tell_stragglers(bus, life.identity, announcer)).stop)
    sending = asyncio.create_task(outbox.run(bus))
    try:
        return await attendance.attend()
    finally:
        await checkpoints.drain(settings.outbox_drain_s)
        await faults.drain()
        if logs is not None:
            logs.signals.close()
        await outgoing.drain()
        await outbox.drain(settings.outbox_drain_s)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _done_before_the_end(work: asyncio.Task[tuple[JobAttendance, Bus]], life: AgentLife) -> bool:
    """False: the agent was told to go meanwhile, and the work was given up."""
    told_to_go = asyncio.create_task(life.ended.wait())
    await asyncio.wait([work, told_to_go], return_when=asyncio.FIRST_COMPLETED)
    told_to_go.cancel()
    if not work.done():
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return False
    return True


async def _control(
    grace: GraceOptions,
    settings: AgentSettings,
    place: LaunchPlace,
    life: AgentLife,
    processes: ProcessWorkers,
    worker_socket: WorkerSocket,
    blocks: BlockReports,
    outgoing: Outgoing,
    status: StatusApi,
    stack: AsyncExitStack,
) -> tuple[JobAttendance, Bus]:
    """Everything between the bus and the workers."""
    clock, announcer = SystemClock(), place.announcer
    connection = await connect(settings, name=f"{NAME} {life.identity.node_id}")
    stack.push_async_callback(connection.close)
    status.describer.bus_connected = lambda: connection.is_connected
    bus = JetStreamBus(
        connection,
        cluster=settings.cluster,
        publish_limit_s=settings.publish_limit_s,
        command_keys=None if settings.command_keys is None else CommandKeys(settings.command_keys),
    )
    journal = SqliteCommandJournal(place.folder.journal)
    stack.callback(journal.close)
    port = ReservedPort()
    stack.callback(port.close)
    stop = WorkerStop(life, processes, port, announcer, InProcessStop(life, processes, worker_socket, announcer))
    start = WorkerStart(life, processes, stop, clock, announcer, InPlaceRestart(life, processes, worker_socket))
    end = JobEnd(life, stop, announcer)
    ask = CheckpointAsk(life, worker_socket, announcer)
    intake = CommandIntake(life, journal, start, stop, end, outgoing, clock, announcer, ask)
    reporter = AgentReporter(life, bus, outgoing, port, clock, heartbeat_s=settings.heartbeat_s)
    blocks.announce = reporter.report
    dead_man = DeadMan(life, bus, intake, stop, reporter, outgoing, clock, announcer, policy=grace.dead_man)
    attendance = JobAttendance(
        life,
        bus,
        intake,
        CatchUp(life, bus, intake, clock, interval_s=settings.catch_up_s),
        reporter,
        clock,
        announcer,
        is_connected=lambda: connection.is_connected,
        beside=(dead_man.forever,),
    )
    connection.on_reconnected(attendance.on_reconnected)
    return attendance, bus


def _life(options: LaunchOptions, settings: AgentSettings, place: LaunchPlace, clock: SystemClock) -> AgentLife:
    folder, announcer = place.folder, place.announcer
    # A rank has no use for the secrets of the agent.
    environ = {name: value for name, value in os.environ.items() if name not in (TOKEN_VARIABLE, SEED_VARIABLE)}
    env, notice = base_env(environ, nproc_per_node=options.spec.nproc_per_node)
    for line in filter(None, (*options.notes, notice)):
        announcer.say(line)
    announcer.say(f"job {place.job_id}, node {folder.node_id}; logs: {place.log_dir / place.run_id}")
    return AgentLife(
        identity=AgentIdentity(
            node_id=folder.node_id,
            instance_id=derived_id(folder.node_id, "instance", os.getpid(), clock.now().isoformat()),
            job_id=place.job_id,
            address=own_address(settings.nats_url, nnodes=options.spec.nnodes, local_addr=options.local_addr),
            host=socket.gethostname(),
            pid=os.getpid(),
            node_rank_wanted=options.node_rank,
            labels=options.node_labels,
        ),
        spec=options.spec,
        program=JobProgram(
            kind=options.kind,
            program=options.program,
            args=options.args,
            cwd=Path.cwd(),
            role=options.role,
            base_env=env,
            files=lambda version, local_rank: rank_files(place.log_dir, place.run_id, version, local_rank),
            terminal=options.terminal,
            virtual_local_rank=options.virtual_local_rank,
            shutdown_signal=options.grace.shutdown_signal,
        ),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m node_agent.main`: the flags of `phalanx run`, with a bus that is there already."""
    options = parse_launch(sys.argv[1:] if argv is None else argv, os.environ)
    terminal = Terminal()
    try:
        problem = check_program(options, Path.cwd())
        if problem:
            terminal.notice(problem)
            return ExitCode.USAGE
        settings = AgentSettings()
        nats_url = options.nats_url or settings.nats_url
        settings = settings.model_copy(update={"cluster": options.cluster, "nats_url": nats_url})
        return asyncio.run(run_launcher(options, settings, job_id=job_id_of(options), terminal=terminal))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        terminal.notice(f"bad setting {'.'.join(map(str, first['loc']))}: {first['msg']}")
        return ExitCode.BAD_SETTINGS
    finally:
        terminal.close()


if __name__ == "__main__":
    sys.exit(main())

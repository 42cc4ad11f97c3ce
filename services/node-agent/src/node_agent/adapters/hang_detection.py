"""Hang detection put together: its use case with the readers of this machine, hung into the workers' reports."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from node_agent.adapters.process_state import ProcReader
from node_agent.adapters.stack_files import StackFiles
from node_agent.adapters.worker_processes import ProcessWorkers
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.outgoing import Outgoing
from node_agent.application.relay_worker_reports import WorkerReportRelay
from node_agent.application.report_rank_faults import RankFaultReporter
from node_agent.application.share_stalls import StallExchange
from node_agent.application.take_looks import LookTaker
from node_agent.application.watch_progress import HangWatch
from node_agent.application.watch_states import StateBoard
from node_agent.domain.hang_policies import DetectionPolicy
from service_kit.ports import Clock


def watch_hangs(
    life: AgentLife,
    processes: ProcessWorkers,
    outgoing: Outgoing,
    faults: RankFaultReporter,
    relay: WorkerReportRelay,
    clock: Clock,
    announcer: Announcer,
    policy: DetectionPolicy,
    stack: AsyncExitStack,
) -> StallExchange:
    """Watch the ranks of this node until the stack unwinds; the exchange wants the bus once there is one."""
    reader = ProcReader()
    board = StateBoard(reader)
    stacks = StackFiles(files_of=processes.files_of, signal=processes.signal)
    looks = LookTaker(reader=reader, stacks=stacks, board=board, lines=processes, clock=clock)
    stalls = StallExchange(life, outgoing, clock)
    watch = HangWatch(life, faults, board, looks, clock, announcer, policy, stalls)
    relay.on_advance, relay.on_declared = watch.on_step, watch.on_phase
    stack.callback(asyncio.create_task(watch.run()).cancel)
    return stalls

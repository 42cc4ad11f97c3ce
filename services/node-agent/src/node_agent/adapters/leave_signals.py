"""Signals to the agent's process become a leave: which ones are heard, and what the leave stands on."""

from __future__ import annotations

import asyncio

from node_agent.adapters.launch_options import LaunchOptions
from node_agent.application.agent_life import AgentLife
from node_agent.application.checkpoint_ports import CheckpointLine
from node_agent.application.control_ports import Announcer
from node_agent.application.farewell import Farewell
from node_agent.application.leave_job import Leave
from node_agent.application.outgoing import Outgoing
from node_agent.application.ports import WorkerProcesses
from node_agent.application.request_checkpoint import CheckpointAsk
from service_kit.ports import Clock


def leave_on_signals(
    options: LaunchOptions,
    life: AgentLife,
    processes: WorkerProcesses,
    line: CheckpointLine,
    outgoing: Outgoing,
    clock: Clock,
    announcer: Announcer,
) -> Leave:
    """Hear the signals that stop the job and those that announce the loss of the node."""
    ask = CheckpointAsk(life, line, announcer)
    leave = Leave(
        life,
        processes,
        announcer,
        shutdown_timeout_s=options.shutdown_timeout_s,
        farewell=Farewell(life, line, ask, outgoing, clock, announcer),
        preemption=options.grace.preemption,
    )
    loop = asyncio.get_running_loop()
    for number in dict.fromkeys((*options.signals, *options.grace.preemption)):
        loop.add_signal_handler(number, leave.on_signal, number)
    return leave

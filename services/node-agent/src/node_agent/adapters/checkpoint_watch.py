"""Puts the search for checkpoints together: files and folder on one side, the running ranks on the other."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from node_agent.adapters.checkpoint_files import LocalCheckpointFiles
from node_agent.adapters.checkpoint_folder import WatchedFolder
from node_agent.adapters.checkpoint_options import CheckpointOptions
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.discover_checkpoints import CheckpointDiscovery
from node_agent.application.outgoing import Outgoing
from node_agent.application.watch_checkpoint_folder import CheckpointFolderWatch
from service_kit.ports import Clock


async def checkpoint_discovery(
    options: CheckpointOptions,
    life: AgentLife,
    outgoing: Outgoing,
    clock: Clock,
    announcer: Announcer,
    stack: AsyncExitStack,
) -> CheckpointDiscovery:
    """Wire the discovery. With a folder: look what lies in it before anybody writes there, then watch it."""
    files = LocalCheckpointFiles(cwd=life.program.cwd)
    discovery = CheckpointDiscovery(life, outgoing, clock, announcer, files, level=options.level)
    if options.folder is None:
        return discovery
    folder = WatchedFolder(life.program.cwd / options.folder, options.pattern)
    watch = CheckpointFolderWatch(life, discovery, folder, clock, announcer, level=options.level)
    life.checkpoint_found = found = await watch.find_before()
    if found is not None:
        announcer.say(f"found a checkpoint of step {found.step} from before this job: {found.path}")
    watching = asyncio.create_task(watch.run())
    stack.callback(watching.cancel)
    return discovery

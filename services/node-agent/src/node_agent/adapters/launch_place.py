"""Where one run of the launcher happens: its job, its folders, its terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node_agent.adapters.agent_folder import AgentFolder, folder_name
from node_agent.adapters.announcer import TerminalAnnouncer
from node_agent.adapters.evidence_folder import EvidenceFolders
from node_agent.adapters.terminal import Terminal
from node_agent.adapters.worker_output import attempt_dir


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlace:
    """One run on this node."""

    job_id: str
    folder: AgentFolder
    log_dir: Path
    announcer: TerminalAnnouncer
    terminal: Terminal

    @property
    def run_id(self) -> str:
        """Folder of this node's logs in `log_dir`."""
        return f"{folder_name(self.job_id)}/{folder_name(self.folder.node_id)}"

    def evidence(self) -> EvidenceFolders:
        """Keeps evidence beside the logs of each attempt."""
        return EvidenceFolders(
            lambda version: attempt_dir(self.log_dir, self.run_id, version), notice=self.announcer.say
        )

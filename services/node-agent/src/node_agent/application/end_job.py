"""The job is over: end what runs, tell the person why in a few lines, and leave with the outcome's exit code."""

from __future__ import annotations

from fault_contracts.commands import EndJob
from fault_contracts.recovery import JobOutcome
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.ports import WorkerExit
from node_agent.application.stop_workers import WorkerStop
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.job_end import exit_code_of, headline

_FRAMES_SHOWN = 3
_TAIL_LINES_SHOWN = 5


class JobEnd:
    """The use case behind EndJob."""

    def __init__(self, life: AgentLife, stop: WorkerStop, announcer: Announcer) -> None:
        self._life = life
        self._stop = stop
        self._announcer = announcer

    async def carry_out(self, command: EndJob) -> None:
        """Stop, explain, end the life of the agent.

        Raises:
            TransitionRefused: the agent is leaving already.
        """
        await self._stop.stop_group(AgentEvent.LEAVE, grace_s=self._life.spec.stop_grace_s)
        for line in self._story(command):
            self._announcer.say(line)
        self._life.end(exit_code_of(command.outcome), f"the job ended: {command.outcome}")

    def _story(self, command: EndJob) -> list[str]:
        lines = [headline(command.outcome)]
        if command.outcome is JobOutcome.SUCCEEDED:
            return lines
        lines.append(f"reason: {command.reason.sentence} ({command.reason.rule_id})")
        if command.summary and command.summary != command.reason.sentence:
            lines.extend(line for line in command.summary.splitlines() if line.strip())
        failure = self._life.first_failure
        if failure is not None:
            lines.extend(_last_words(failure))
            files = self._life.program.files(failure.handle.topology_version, failure.handle.local_rank)
            lines.append(f"logs of rank {failure.handle.rank}: {files.directory}")
        return lines


def _last_words(failure: WorkerExit) -> list[str]:
    head = f"rank {failure.handle.rank} ended with {failure.status}"
    error = failure.error
    if error is not None and error.type:
        message = error.message.strip().splitlines()
        said = f"{error.type}: {message[0]}" if message else error.type
        return [f"{head}: {said}", *(f"    {frame}" for frame in error.frames[-_FRAMES_SHOWN:])]
    return [head, *(f"    {line}" for line in failure.stderr_tail[-_TAIL_LINES_SHOWN:])]

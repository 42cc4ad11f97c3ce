"""One job from its record and its journal: where it stands, and what befell it. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fault_contracts.accounts import JobAccount
from phalanx_cli.commands.job_records import job_views
from phalanx_cli.commands.job_view import job_lines
from phalanx_cli.journal.account_lines import account_lines
from phalanx_cli.journal.as_data import record_data
from phalanx_cli.journal.read import read_evidence, read_journal
from phalanx_cli.journal.record import Record, missing_at_end
from phalanx_cli.journal.tell import story_lines
from service_kit.jetstream.connection import connect
from service_kit.settings import BusSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStory:
    """What is known of a job.

    Attributes:
        view: from the planner's record, see `job_view`; None: it is not kept any more, a while after the job's end.
        evidence: what evidence ids stand for.
    """

    job_id: str
    view: dict[str, Any] | None
    record: Record
    incidents: int
    evidence: dict[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> str:
        """Entries that the record knows and the journal does not have; empty: none."""
        return "" if self.view is None else missing_at_end(self.record, self.view["journal_entries"])

    def data(self) -> dict[str, Any]:
        """For programs."""
        known = self.view or {"job_id": self.job_id, "phase": None}
        journal = {**record_data(self.record, self.evidence), "missing_at_end": self.missing}
        return {**known, "journal": journal}

    def lines(self) -> Iterator[str]:
        """For a person."""
        if self.view is None:
            yield f"job {self.job_id}: the planner keeps no record of it any more; what follows is its journal"
            ranks_per_node = 1
        else:
            ranks_per_node = int(self.view["nproc_per_node"])
            yield from job_lines(self.view)
            if self.view["ending"] is None:
                yield ""
                yield from account_lines(JobAccount.model_validate(self.view["account"]))
        yield from story_lines(
            self.record, incidents_max=self.incidents, ranks_per_node=ranks_per_node, evidence=self.evidence
        )
        if self.missing:
            yield f"hole         {self.missing}"


async def job_story(settings: BusSettings, job_id: str, *, incidents: int) -> JobStory | None:
    """The job as this bus knows it; None: it does not.

    Raises:
        BusUnavailable: no answer.
    """
    views = await job_views(settings, job_id)
    connection = await connect(settings, name="phalanx-job")
    try:
        record = await read_journal(connection, settings.cluster, job_id)
        newest = [tale for run in record.runs for tale in run.incidents[-incidents:] if incidents]
        evidence = await read_evidence(connection, settings.cluster, newest)
    finally:
        await connection.close()
    if not views and not record.runs and not record.unread:
        return None
    return JobStory(
        job_id=job_id, view=views[0] if views else None, record=record, incidents=incidents, evidence=evidence
    )

"""Promises about the journal as a record: no entry is missing, and the accounts add up to the time that passed."""

from __future__ import annotations

from collections import defaultdict

from sim_checkers import Checker

from fault_contracts.accounts import JobAccount
from fault_contracts.recovery import IncidentClosed, JobEnded, JournalEntry
from fault_contracts.registry import Stream
from phalanx_cli.journal.record import Entry, RunTale, missing_at_end, read_record
from recovery_planner.domain.accounting import account_until

TOLERANCE_S = 0.001
"""Sums of floating point numbers."""


class Counted(Checker):
    """Holes, and figures that do not fit together."""

    name = "books"
    promise = "no entry of the journal is missing, and the accounts add up to the time that passed"

    def at_rest(self) -> None:
        """See Checker."""
        entries: dict[str, list[Entry]] = defaultdict(list)
        for sequence, stored in enumerate(self.world.broker.stored(Stream.JOURNAL), start=1):
            envelope = stored.envelope
            if isinstance(envelope.data, JournalEntry):
                entries[envelope.subject].append(
                    Entry(payload=envelope.data, message_id=envelope.id, at=envelope.time, sequence=sequence)
                )
        for job, told in entries.items():
            record = read_record(told, ())
            for run in record.runs:
                self._run(job, run)
            gang = self.world.gangs.gangs.get(job)
            if gang is not None and (missing := missing_at_end(record, gang.journal_seq)):
                self.broken(f"{job}: {missing}")
            if gang is not None:
                self._adds_up(job, account_until(gang, self.world.clock.now()))

    def _run(self, job: str, run: RunTale) -> None:
        for hole in run.holes:
            self.broken(f"{job}: {hole}")
        if run.ended is not None and run.ended.account is not None:
            self._adds_up(job, run.ended.account)
            self._is_the_sum(job, run, run.ended)

    def _adds_up(self, job: str, account: JobAccount) -> None:
        parts = account.waiting_s + account.training_s + account.down_s
        whole = (account.until - account.since).total_seconds()
        if abs(parts - whole) > TOLERANCE_S:
            self.broken(f"{job}: {parts:.3f} s are booked of {whole:.3f} s")
        if account.redone_s > account.training_s + TOLERANCE_S and account.steps_redone == 0:
            self.broken(f"{job}: {account.redone_s:.3f} s were done again, and no step")

    def _is_the_sum(self, job: str, run: RunTale, ended: JobEnded) -> None:
        assert ended.account is not None, "asked for the parts of no account"
        closed = [end for tale in run.incidents if (end := tale.last(IncidentClosed)) is not None]
        down_gpu_s = sum(end.account.down_gpu_s for end in closed if end.account is not None)
        charged = sum(cost.down_gpu_s for cost in ended.account.causes)
        if ended.account.incidents != len(closed) or abs(charged - down_gpu_s) > TOLERANCE_S:
            self.broken(
                f"{job}: {len(closed)} incidents cost {down_gpu_s:.3f} GPU-s, and {ended.account.incidents} are charged"
                f" with {charged:.3f}"
            )

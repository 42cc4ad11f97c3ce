"""Two kinds of failure, and who owns the retry.

    ServiceError
    ├── TransientError          not accepted, or safe to repeat: the one owner of the retry repeats it with backoff
    │   └── BusUnavailable      no connection, or no answer within the deadline
    ├── PermanentError          everything else: dead letter, visible alert, never repeated
    │   ├── NoPermission        our identity may not do this on the bus: permissions or identity are wrong
    │   ├── ContractViolation   a peer's fault: a message that does not fit the contract
    │   └── IllegalTransition   our fault: a machine was asked for a transition that its table does not have
    ├── CompareAndSetLost       somebody else wrote first: reload and decide again (not a failure)
    └── StaleLeader             the server refused a command of an older epoch: stop commanding at once

Ambiguous is permanent.
"""

from __future__ import annotations


class ServiceError(Exception):
    """Root of the tree above."""


class TransientError(ServiceError):
    """Not accepted, or safe to repeat.

    Attributes:
        retry_after_s: hint for the owner of the retry; None leaves it to its backoff.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BusUnavailable(TransientError):
    """The bus did not accept or answer in time."""


class PermanentError(ServiceError):
    """Repeating it cannot help."""


class NoPermission(PermanentError):
    """The server denied a subject to our identity."""


class ContractViolation(PermanentError):
    """A message that does not fit the contract."""


class IllegalTransition(PermanentError):
    """A transition that the table does not have; nothing was changed."""


class CompareAndSetLost(ServiceError):
    """The record changed since it was read."""


class StaleLeader(ServiceError):
    """A newer leader holds the epoch."""

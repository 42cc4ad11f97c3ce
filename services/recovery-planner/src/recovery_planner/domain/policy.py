"""How long the planner waits for whom. Read from the settings once and handed to every decision."""

from __future__ import annotations

from dataclasses import dataclass, fields

MAY_BE_ZERO = ("in_process_attempts_max", "restarts_ceiling")
"""What can be turned off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits of the incident machine. The reason for each default stands beside the setting of the same name.

    Raises:
        ValueError: a limit that is not above zero.
    """

    stop_margin_s: float = 7.0
    """Beyond the job's own grace, an agent has this long to report that its ranks ended."""
    verdict_deadline_s: float = 2.0
    """After the gang stopped, the verdict may take this long; then the cause is unknown."""
    start_deadline_s: float = 120.0
    """All agents must have started their ranks by then."""
    capacity_wait_s: float = 300.0
    """How long a gang with a hole waits for a node."""
    end_repeat_s: float = 5.0
    """An ended job tells an agent that is still there again, at most this often."""
    command_ttl_s: float = 120.0
    """Validity of a start or stop from the moment it is published."""
    end_ttl_s: float = 30.0
    """Validity of EndJob. Short, because a new run of the same job_id must not obey the old one's end; an agent that
    was cut off for longer is told again when it reports."""
    in_process_attempts_max: int = 2
    """Restarts in place within one incident; a fault that comes back after that many needs fresh processes.
    0: none."""
    members_max: int = 100_000
    """Agents of one job, spares included; JobSpec allows as many nodes."""
    restarts_ceiling: int | None = None
    """Of the cluster: no job gets more restarts inside its window. None: its own word counts."""
    capacity_wait_ceiling_s: float | None = None
    """Of the cluster: no hole waits longer for a node. None: the job's own word counts."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue  # a ceiling that nobody set
            least_is_zero = field.name in MAY_BE_ZERO
            if value < 0 or (value == 0 and not least_is_zero):
                raise ValueError(f"{field.name} is {value}; it must be above zero")

"""How a recorded stack is doing now: every process asked, the answer as data and as a table."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rich.table import Table

from phalanx_cli.foreign_text import printable
from phalanx_cli.stack.probes import http_problem, nats_problem, redis_problem, without_password
from phalanx_cli.stack.state import HealthCheck, MemberRecord, StackState


class Health(StrEnum):
    """What is known of a process. Silence would be unknown, but each is asked: no answer in time is bad."""

    OK = "ok"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """One line of the status."""

    name: str
    pid: int | None
    address: str
    health: Health
    reason: str
    age_s: float | None
    log_path: Path | None


def stack_status(state: StackState) -> tuple[MemberStatus, ...]:
    """Ask the owner and every member of a stack."""
    owner = state.owner_identity
    owner_alive = owner.is_alive()
    first = MemberStatus(
        name="supervisor" if state.owner == "up" else "phalanx run",
        pid=owner.pid,
        address="",
        health=Health.OK if owner_alive else Health.BAD,
        reason="" if owner_alive else "not running",
        age_s=owner.age_s(),
        log_path=None,
    )
    return (first, *(_member_status(member) for member in state.members))


def status_table(cluster: str, statuses: Iterable[MemberStatus]) -> Table:
    """Draw the statuses."""
    table = Table(title=f"Phalanx stack, cluster {cluster}", title_justify="left")
    for heading in ("process", "pid", "address", "health", "age", "log"):
        table.add_column(heading, overflow="fold")
    for status in statuses:
        health = "[green]ok[/]" if status.health is Health.OK else f"[red]bad[/] {status.reason}"
        pid = "-" if status.pid is None else str(status.pid)
        log = "-" if status.log_path is None else str(status.log_path)
        table.add_row(status.name, pid, status.address or "-", health, age_text(status.age_s), log)
    return table


def age_text(age_s: float | None) -> str:
    """Return an age as people say it: the two largest units."""
    if age_s is None:
        return "-"
    minutes, seconds = divmod(int(age_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in parts[:2])


def _member_status(member: MemberRecord) -> MemberStatus:
    is_gone = member.identity is not None and not member.identity.is_alive()
    problem = "not running" if is_gone else _problem(member)
    return MemberStatus(
        name=member.name,
        pid=None if member.identity is None else member.identity.pid,
        address=_address(member),
        health=Health.OK if problem is None else Health.BAD,
        reason=printable(problem or ""),
        age_s=None if member.identity is None else member.identity.age_s(),
        log_path=member.log_path,
    )


def _address(member: MemberRecord) -> str:
    if member.url is not None:
        return without_password(member.url)
    return "" if member.http_port is None else f"http://127.0.0.1:{member.http_port}"


def _problem(member: MemberRecord) -> str | None:
    match member.health_check:
        case HealthCheck.NATS:
            assert member.url is not None, "a server is recorded with its URL"
            jetstream = None if member.http_port is None else http_problem(member.http_port, "/healthz")
            return nats_problem(member.url) or jetstream
        case HealthCheck.REDIS:
            assert member.url is not None, "a server is recorded with its URL"
            return redis_problem(member.url)
        case HealthCheck.READYZ:
            return "not ready" if member.http_port is None else http_problem(member.http_port, "/readyz")

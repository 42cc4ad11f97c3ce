"""Accounts as lines: what an incident cost, and where the time of a job went. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fault_contracts.accounts import IncidentAccount, JobAccount

CAUSES_SHOWN = 12


def cost_words(account: IncidentAccount) -> str:
    """`2.31 s of 4 GPUs (9.2 GPU-s) standing still, 12 steps done again (6.0 GPU-s)`."""
    gpus = "1 GPU" if account.ranks == 1 else f"{account.ranks} GPUs"
    words = f"{account.down_s:.2f} s of {gpus} ({gpu_time(account.down_gpu_s)}) standing still"
    if account.steps_redone is None:
        return f"{words}; how many steps are done again is not known"
    steps = "1 step" if account.steps_redone == 1 else f"{account.steps_redone} steps"
    if account.redone_gpu_s is None:
        return f"{words}; {steps} done again, how long they took is not known"
    return f"{words}; {steps} done again ({gpu_time(account.redone_gpu_s)})"


def account_lines(account: JobAccount) -> Iterator[str]:
    """Where the time went, in seconds and shares, then by cause."""
    whole_s = account.waiting_s + account.training_s + account.down_s
    useful_s = max(0.0, account.training_s - account.redone_s)
    at_most = "at most " if account.unpriced else ""
    yield (
        f"time         {duration(whole_s)}: {duration(useful_s)} useful, {duration(account.redone_s)} done again, "
        f"{duration(account.down_s)} down, {duration(account.waiting_s)} before the first start"
    )
    yield (
        f"goodput      ETTR {at_most}{_share(account.ettr)}, goodput {at_most}{_share(account.goodput)} of "
        f"{gpu_time(total_gpu_s(account))} ({gpu_time(account.spare_gpu_s)} without ranks)"
    )
    if account.unpriced:
        yield f"             {account.unpriced} of {account.incidents} incidents: the cost of lost steps is not known"
    for cost in account.causes[:CAUSES_SHOWN]:
        name = f"{cost.attribution}, {cost.cause}" if cost.cause else f"{cost.attribution}, no verdict"
        yield (
            f"             {name}: {cost.incidents} x, down {gpu_time(cost.down_gpu_s)}, "
            f"{cost.steps_redone} steps done again ({gpu_time(cost.redone_gpu_s)}), nodes taken: {cost.nodes_taken}"
        )
    if len(account.causes) > CAUSES_SHOWN:
        yield f"             ... and {len(account.causes) - CAUSES_SHOWN} more causes; --format json has all"


def total_gpu_s(account: JobAccount) -> float:
    """All GPU-seconds of the job, spares included."""
    return account.waiting_gpu_s + account.training_gpu_s + account.down_gpu_s + account.spare_gpu_s


def gpu_time(gpu_s: float) -> str:
    """GPU-seconds, or GPU-hours where those are easier to read."""
    return f"{gpu_s / 3_600:.1f} GPU-h" if gpu_s >= 3_600 else f"{gpu_s:.1f} GPU-s"


def duration(seconds: float) -> str:
    """`0.31 s`, `12.3 s`, `5 min 07 s`, `3 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value * 100:.2f} %"

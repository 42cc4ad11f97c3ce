"""A death that is nobody else's, as a finding: how it ended, and whether it had happened before.

One finding a death: the first kind that fits, in the order of what it proves. Kinds: fault_attribution.live_kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fault_attribution.finding import Finding, Role
from fault_classifier.domain.evidence import Exit, JobEvidence
from fault_classifier.domain.fact_policy import FactPolicy
from fault_classifier.domain.recurrence import earlier_oom_at_step, earlier_same_exception, was_killed, without_progress
from fault_classifier.domain.signal_number import SignalNumber, signal_name
from fault_contracts.agent import OomKill

TEXT_MAX = 1_000
"""Characters of a sentence; two fit into a reason."""
EVIDENCE_MAX = 16
NATIVE_SIGNALS = frozenset(
    {SignalNumber.SIGSEGV, SignalNumber.SIGBUS, SignalNumber.SIGABRT, SignalNumber.SIGFPE, SignalNumber.SIGILL}
)
_NEVER_LOADS = frozenset({"SyntaxError", "IndentationError", "TabError", "ModuleNotFoundError", "ImportError"})
"""Raised while code is loaded: the same files give the same error again."""
_AT_MODULE_LEVEL = frozenset({"NameError", "AttributeError"})
"""Deterministic where the module's own lines raised them; inside a function they may depend on data."""

Told = tuple[str, str, dict[str, str], tuple[Exit, ...]]
"""Kind, sentence, captures, and the earlier deaths that it rests on."""


def exit_facts(exit_: Exit, job: JobEvidence, topology_version: int, policy: FactPolicy) -> Iterator[Finding]:
    """What this death means, with what makes it doubtful."""
    for read in _READERS:
        told = read(exit_, job, topology_version, policy)
        if told is not None:
            kind, sentence, captures, earlier = told
            yield exit_finding(exit_, kind, sentence, captures, also=earlier)
            break
    if was_killed(exit_) and exit_.status.oom_kill is not OomKill.NO:
        sentence = "whether the kernel's OOM killer did it is unknown: the agent could not read the kernel's records"
        yield exit_finding(exit_, "oom_record_unreadable", sentence, {}, role=Role.CONTEXT)


def exit_finding(
    exit_: Exit,
    kind: str,
    sentence: str,
    captures: dict[str, str],
    *,
    role: Role = Role.CAUSE,
    also: tuple[Exit, ...] = (),
) -> Finding:
    """A finding about a death."""
    step = {} if exit_.step is None else {"step": str(exit_.step)}
    return Finding(
        finding_id=f"{kind}:{exit_.evidence_id}",
        kind=kind,
        role=role,
        node=exit_.node_id,
        rank=exit_.rank,
        process=str(exit_.status.pid),
        captures={**step, **captures},
        text=sentence[:TEXT_MAX],
        rule_id="live.exit",
        because=tuple(each.evidence_id for each in (exit_, *also))[:EVIDENCE_MAX],
    )


def who(exit_: Exit) -> str:
    """The rank, for people."""
    return f"rank {exit_.rank} on {exit_.node_id}"


def at_step(exit_: Exit) -> str:
    """Where it had come to; empty when that is unknown."""
    return "" if exit_.step is None else f" after step {exit_.step}"


def shown_error(exit_: Exit) -> str:
    """The exception in one line."""
    error = exit_.error
    assert error is not None, "asked for the exception of a death without one"
    first = error.message.strip().splitlines()[0] if error.message.strip() else ""
    return f"{error.type}: {first[:200]}" if first else error.type


def _oom_kill(exit_: Exit, job: JobEvidence, version: int, _: FactPolicy) -> Told | None:
    if exit_.status.oom_kill is not OomKill.YES:
        return None
    earlier = earlier_oom_at_step(exit_, job, version)
    if earlier:
        sentence = (
            f"the kernel's OOM killer ended {who(exit_)} at step {exit_.step}, as it had ended rank "
            f"{earlier[-1].rank} at the same step before: the job needs more memory than it has"
        )
        return "oom_kill", sentence, {"seen_by": "agent", "repeated": "yes"}, earlier
    sentence = f"the kernel's OOM killer ended {who(exit_)}{at_step(exit_)}: the host's or container's memory was full"
    return "oom_kill", sentence, {"seen_by": "agent", "repeated": "no"}, ()


def _process_killed(exit_: Exit, _: JobEvidence, __: int, ___: FactPolicy) -> Told | None:
    if not was_killed(exit_):
        return None
    sentence = f"{who(exit_)} was ended by SIGKILL{at_step(exit_)}, which no program sends itself by a bug"
    if exit_.status.oom_kill is OomKill.NO:
        sentence += ", and the kernel recorded no OOM kill"
    return "process_killed", sentence, {}, ()


def _restart_asked(exit_: Exit, _: JobEvidence, __: int, ___: FactPolicy) -> Told | None:
    """It may ask at every step: a wish is no exception, and repeats prove nothing."""
    if exit_.asked is None:
        return None
    said = "" if exit_.error is None or not exit_.error.message.strip() else f": {exit_.error.message[:200]}"
    sentence = f"{who(exit_)} asked for a restart of level {exit_.asked}{at_step(exit_)}{said}"
    return "restart_asked", sentence, {"level": str(exit_.asked)}, ()


def _repeated_exception(exit_: Exit, job: JobEvidence, version: int, policy: FactPolicy) -> Told | None:
    """The same exception at the same step again; or often enough without progress where steps are unknown."""
    if exit_.error is None:
        return None
    earlier = earlier_same_exception(exit_, job, version)
    same_step = tuple(each for each in earlier if exit_.step is not None and each.step == exit_.step)
    if same_step:
        sentence = (
            f"{exit_.error.type} was raised at the same place at the same step ({exit_.step}) before: the job was "
            f"restarted and came to the same end ({shown_error(exit_)})"
        )
        return "repeated_exception", sentence, {"by": "step", "type": exit_.error.name}, same_step
    still = without_progress(exit_, earlier)
    if len(still) + 1 < policy.occurrences_min:
        return None
    sentence = (
        f"{exit_.error.type} was raised at the same place in {len(still) + 1} generations and no checkpoint was gained "
        f"in between; steps are not known ({shown_error(exit_)})"
    )
    return "repeated_exception", sentence, {"by": "count", "type": exit_.error.name}, still


def _startup_exception(exit_: Exit, _: JobEvidence, __: int, policy: FactPolicy) -> Told | None:
    """An error of loading the program, before any step and without a checkpoint."""
    error = exit_.error
    if error is None or exit_.step is not None or exit_.checkpoint_step is not None or exit_.ran_s > policy.startup_s:
        return None
    at_module_level = bool(error.frames) and " in <module>" in error.frames[-1]
    if error.name not in _NEVER_LOADS and not (error.name in _AT_MODULE_LEVEL and at_module_level):
        return None
    sentence = (
        f"{error.type} came {exit_.ran_s:.1f} s after the start, while the program was loaded, before any step: the "
        f"same files will raise it again ({shown_error(exit_)})"
    )
    return "startup_exception", sentence, {"type": error.name}, ()


def _native_crash(exit_: Exit, _: JobEvidence, __: int, ___: FactPolicy) -> Told | None:
    if exit_.status.signal is None or exit_.status.signal not in NATIVE_SIGNALS:
        return None
    name = signal_name(exit_.status.signal)
    sentence = (
        f"{who(exit_)} crashed with {name}{at_step(exit_)} in native code: an extension, a library, or the memory "
        "under them"
    )
    return "native_crash", sentence, {"signal": name}, ()


def _first_exception(exit_: Exit, job: JobEvidence, version: int, policy: FactPolicy) -> Told | None:
    """An exception that did not prove to be a repetition."""
    if exit_.error is None:
        return None
    earlier = earlier_same_exception(exit_, job, version)
    times = f"it was seen {len(earlier)} times before, not at this step" if earlier else "it was not seen before"
    # What is promised here is what `_repeated_exception` will do.
    if exit_.step is not None:
        outlook = "the same exception at the same step again will end the job"
    else:
        needed = policy.occurrences_min - 1 - len(without_progress(exit_, earlier))
        outlook = f"steps are not known; {needed} more without checkpoint progress will end the job"
    sentence = f"{who(exit_)} raised {shown_error(exit_)}{at_step(exit_)}; {times}; {outlook}"
    return "first_exception", sentence, {"type": exit_.error.name}, ()


def _other_end(exit_: Exit, _: JobEvidence, __: int, ___: FactPolicy) -> Told | None:
    """A signal that no other kind reads, a code without an exception, or nothing that is known."""
    if exit_.status.signal is not None:
        name = signal_name(exit_.status.signal)
        return "other_signal", f"{who(exit_)} was ended by {name}{at_step(exit_)}", {"signal": name}, ()
    code = exit_.status.exit_code
    if code is not None and code != 0:
        sentence = f"{who(exit_)} ended with exit code {code}{at_step(exit_)} and left no exception"
        return "exit_without_reason", sentence, {"code": str(code)}, ()
    if code is None:
        return "status_lost", f"{who(exit_)} ended and its exit status was lost", {}, ()
    return None


_READERS: tuple[Callable[[Exit, JobEvidence, int, FactPolicy], Told | None], ...] = (
    _oom_kill,
    _process_killed,
    _restart_asked,
    _repeated_exception,
    _startup_exception,
    _native_crash,
    _first_exception,
    _other_end,
)

"""When a rule about a rank that died holds. One function a rule; the rulebook names them."""

from __future__ import annotations

from collections.abc import Callable

from fault_classifier.domain.evidence import Exit
from fault_classifier.domain.recurrence import earlier_oom_at_step, earlier_same_exception, was_killed, without_progress
from fault_classifier.domain.rule import Case, Match
from fault_classifier.domain.signal_number import SignalNumber, signal_name
from fault_classifier.domain.victim import victim_reason
from fault_contracts.agent import OomKill

NATIVE_SIGNALS = frozenset(
    {SignalNumber.SIGSEGV, SignalNumber.SIGBUS, SignalNumber.SIGABRT, SignalNumber.SIGFPE, SignalNumber.SIGILL}
)
_NEVER_LOADS = frozenset({"SyntaxError", "IndentationError", "TabError", "ModuleNotFoundError", "ImportError"})
"""Raised while code is loaded: the same files give the same error again."""
_AT_MODULE_LEVEL = frozenset({"NameError", "AttributeError"})
"""Deterministic where the module's own lines raised them; inside a function they may depend on data."""

ExitCondition = Callable[[Exit, Case], Match | None]


def of_exit(condition: ExitCondition) -> Callable[[Case], Match | None]:
    """A rule's condition from one that reads a death that is nobody else's."""

    def holds(case: Case) -> Match | None:
        if not isinstance(case.piece, Exit) or victim_reason(case.piece) is not None:
            return None
        return condition(case.piece, case)

    return holds


def oom_kill(exit_: Exit, _: Case) -> Match | None:
    """The kernel's OOM killer ended the rank."""
    if exit_.status.oom_kill is not OomKill.YES:
        return None
    return Match(
        sentence=f"the kernel's OOM killer ended {_who(exit_)}{_at(exit_)}: the host's or container's memory was full",
        evidence_ids=(exit_.evidence_id,),
    )


def repeated_oom_kill(exit_: Exit, case: Case) -> Match | None:
    """It did so before at the same step."""
    if exit_.status.oom_kill is not OomKill.YES:
        return None
    earlier = earlier_oom_at_step(exit_, case.job, case.generation.topology_version)
    if not earlier:
        return None
    return Match(
        sentence=(
            f"the kernel's OOM killer ended {_who(exit_)} at step {exit_.step}, as it had ended rank "
            f"{earlier[-1].rank} at the same step before: the job needs more memory than it has"
        ),
        evidence_ids=_ids(exit_, *earlier),
    )


def process_killed(exit_: Exit, _: Case) -> Match | None:
    """SIGKILL, and no OOM record."""
    if not was_killed(exit_):
        return None
    sentence = f"{_who(exit_)} was ended by SIGKILL{_at(exit_)}, which no program sends itself by a bug"
    if exit_.status.oom_kill is OomKill.NO:
        return Match(sentence=f"{sentence}, and the kernel recorded no OOM kill", evidence_ids=(exit_.evidence_id,))
    return Match(
        sentence=sentence,
        evidence_ids=(exit_.evidence_id,),
        confidence_factor=0.75,
        doubts=("whether the kernel's OOM killer did it is unknown: the agent could not read the kernel's records",),
    )


def restart_asked(exit_: Exit, _: Case) -> Match | None:
    """The script asked for a restart. It may do so at every step: a wish is no exception, and repeats prove nothing."""
    if exit_.asked is None:
        return None
    said = "" if exit_.error is None or not exit_.error.message.strip() else f": {exit_.error.message[:200]}"
    return Match(
        sentence=f"{_who(exit_)} asked for a restart of level {exit_.asked}{_at(exit_)}{said}",
        evidence_ids=(exit_.evidence_id,),
    )


def repeated_exception(exit_: Exit, case: Case) -> Match | None:
    """The same exception at the same step again; or often enough without progress where steps are unknown."""
    if exit_.error is None or exit_.asked is not None:
        return None
    earlier = earlier_same_exception(exit_, case.job, case.generation.topology_version)
    if exit_.step is not None:
        same_step = [each for each in earlier if each.step == exit_.step]
        if same_step:
            return Match(
                sentence=(
                    f"{exit_.error.type} was raised at the same place at the same step ({exit_.step}) before: the job "
                    f"was restarted and came to the same end ({_shown(exit_)})"
                ),
                evidence_ids=_ids(exit_, *same_step),
            )
    still = without_progress(exit_, earlier)
    if len(still) + 1 < case.policy.occurrences_min:
        return None
    return Match(
        sentence=(
            f"{exit_.error.type} was raised at the same place in {len(still) + 1} generations and no checkpoint was "
            f"gained in between; steps are not known ({_shown(exit_)})"
        ),
        evidence_ids=_ids(exit_, *still),
        confidence_factor=0.9,
        doubts=("the script reports no steps, so that it is not proved that the job stood still",),
    )


def startup_exception(exit_: Exit, case: Case) -> Match | None:
    """An error of loading the program, before any step and without a checkpoint."""
    error = exit_.error
    if error is None or exit_.asked is not None or exit_.step is not None or exit_.checkpoint_step is not None:
        return None
    if exit_.ran_s > case.policy.startup_s:
        return None
    at_module_level = bool(error.frames) and " in <module>" in error.frames[-1]
    if error.name not in _NEVER_LOADS and not (error.name in _AT_MODULE_LEVEL and at_module_level):
        return None
    return Match(
        sentence=(
            f"{error.type} came {exit_.ran_s:.1f} s after the start, while the program was loaded, before any step: "
            f"the same files will raise it again ({_shown(exit_)})"
        ),
        evidence_ids=(exit_.evidence_id,),
    )


def native_crash(exit_: Exit, _: Case) -> Match | None:
    """A signal that the processor or the C library raises for the process's own doing."""
    if exit_.status.signal is None or exit_.status.signal not in NATIVE_SIGNALS:
        return None
    return Match(
        sentence=(
            f"{_who(exit_)} crashed with {signal_name(exit_.status.signal)}{_at(exit_)} in native code: an extension, "
            "a library, or the memory under them"
        ),
        evidence_ids=(exit_.evidence_id,),
    )


def python_exception(exit_: Exit, case: Case) -> Match | None:
    """An exception that did not prove to be a repetition."""
    if exit_.error is None or exit_.asked is not None:
        return None
    earlier = earlier_same_exception(exit_, case.job, case.generation.topology_version)
    times = f"it was seen {len(earlier)} times before, not at this step" if earlier else "it was not seen before"
    # What is promised here is what `repeated_exception` will do.
    if exit_.step is not None:
        outlook = "the same exception at the same step again will end the job"
    else:
        needed = case.policy.occurrences_min - 1 - len(without_progress(exit_, earlier))
        outlook = f"steps are not known; {needed} more without checkpoint progress will end the job"
    return Match(
        sentence=f"{_who(exit_)} raised {_shown(exit_)}{_at(exit_)}; {times}; {outlook}",
        evidence_ids=(exit_.evidence_id,),
    )


def other_signal(exit_: Exit, _: Case) -> Match | None:
    """A signal that no other rule reads."""
    if exit_.status.signal is None:
        return None
    return Match(
        sentence=f"{_who(exit_)} was ended by {signal_name(exit_.status.signal)}{_at(exit_)}",
        evidence_ids=(exit_.evidence_id,),
    )


def exit_code(exit_: Exit, _: Case) -> Match | None:
    """A non-zero exit code and no exception."""
    if exit_.status.exit_code in (None, 0):
        return None
    return Match(
        sentence=f"{_who(exit_)} ended with exit code {exit_.status.exit_code}{_at(exit_)} and left no exception",
        evidence_ids=(exit_.evidence_id,),
    )


def status_lost(exit_: Exit, _: Case) -> Match | None:
    """Nobody knows how it ended."""
    if exit_.status.exit_code is not None or exit_.status.signal is not None:
        return None
    return Match(sentence=f"{_who(exit_)} ended and its exit status was lost", evidence_ids=(exit_.evidence_id,))


def _who(exit_: Exit) -> str:
    return f"rank {exit_.rank} on {exit_.node_id}"


def _at(exit_: Exit) -> str:
    return "" if exit_.step is None else f" after step {exit_.step}"


def _shown(exit_: Exit) -> str:
    error = exit_.error
    assert error is not None, "asked for the exception of a death without one"
    first = error.message.strip().splitlines()[0] if error.message.strip() else ""
    return f"{error.type}: {first[:200]}" if first else error.type


def _ids(*exits: Exit) -> tuple[str, ...]:
    return tuple(each.evidence_id for each in exits)[:64]

"""Whether a death has happened in this job before, and whether anything moved in between."""

from __future__ import annotations

from fault_classifier.domain.evidence import Exit, Faulted, Generation, JobEvidence
from fault_classifier.domain.signal_number import SignalNumber
from fault_classifier.domain.victim import victim_reason
from fault_contracts.agent import OomKill
from fault_contracts.health import RankCheck


def had_outside_cause(generation: Generation) -> bool:
    """Whether something else than the script ended ranks there: then its exceptions prove nothing about the script."""
    stopped = any(each.check == RankCheck.PROCESS_STOPPED for each in generation.faulted)
    return stopped or bool(generation.lost or generation.devices) or any(was_killed(each) for each in generation.exits)


def was_killed(exit_: Exit) -> bool:
    """SIGKILL, and not known to be the OOM killer's."""
    return exit_.status.signal == SignalNumber.SIGKILL and exit_.status.oom_kill is not OomKill.YES


def earlier_same_exception(exit_: Exit, job: JobEvidence, topology_version: int) -> tuple[Exit, ...]:
    """One death per older generation that this exception ended, oldest first."""
    if exit_.error is None:
        return ()
    fingerprint = exit_.error.fingerprint
    found: list[Exit] = []
    for generation in job.before(topology_version):
        if had_outside_cause(generation):
            continue
        same = [
            each
            for each in generation.exits
            if each.error is not None
            and each.asked is None
            and each.error.fingerprint == fingerprint
            and victim_reason(each) is None
        ]
        if same:
            # The same step is what counts; of several ranks the one at this step is the best witness.
            found.append(next((each for each in same if each.step is not None and each.step == exit_.step), same[0]))
    return tuple(found)


def without_progress(exit_: Exit, earlier: tuple[Exit, ...]) -> tuple[Exit, ...]:
    """Of those, the ones that started from the same checkpoint and whose step, or this one's, is not known.

    Where both steps are known they are compared themselves: a difference is progress, or less of it, and no repetition.
    """
    unplaced = [each for each in earlier if each.step is None or exit_.step is None]
    return tuple(each for each in unplaced if each.checkpoint_step == exit_.checkpoint_step)


def earlier_oom_at_step(exit_: Exit, job: JobEvidence, topology_version: int) -> tuple[Exit, ...]:
    """OOM kills of older generations at the same known step."""
    if exit_.step is None:
        return ()
    return tuple(
        each
        for generation in job.before(topology_version)
        for each in generation.exits
        if each.status.oom_kill is OomKill.YES and each.step == exit_.step
    )


def earlier_same_log_rule(faulted: Faulted, job: JobEvidence, topology_version: int) -> tuple[Faulted, ...]:
    """One fault per older generation that the same log rule ended, oldest first."""
    found: list[Faulted] = []
    for generation in job.before(topology_version):
        if had_outside_cause(generation):
            continue
        same = [
            each for each in generation.faulted if each.check == RankCheck.LOG_RULE and each.rule_id == faulted.rule_id
        ]
        if same:
            found.append(next((each for each in same if each.step == faulted.step), same[0]))
    return tuple(found)


def faults_without_progress(faulted: Faulted, earlier: tuple[Faulted, ...]) -> tuple[Faulted, ...]:
    """As `without_progress`: of those, the ones that started from the same checkpoint, where a step is not known."""
    unplaced = [each for each in earlier if each.step is None or faulted.step is None]
    return tuple(each for each in unplaced if each.checkpoint_step == faulted.checkpoint_step)

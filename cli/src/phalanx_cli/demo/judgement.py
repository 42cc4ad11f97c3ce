"""Whether everything held: what came of each injected fault, and what must hold over the whole run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fault_contracts.faults import Attribution, FaultClassified
from fault_contracts.payload import Health
from fault_contracts.recovery import JobOutcome, PhaseTimes
from fault_contracts.recovery_level import RecoveryLevel
from phalanx_cli.demo.inject import Injection
from phalanx_cli.demo.processes import Lives, replaced_ranks
from phalanx_cli.demo.scenario import NODES, WORLD_SIZE, Fault
from phalanx_cli.demo.story import IncidentStory, JobStory
from phalanx_cli.demo.truths import TRUTHS, truth_words

SUCCEEDED = "exit code 0"
FAILED = "exit code 1"
KILLED = "SIGKILL"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultResult:
    """One injected fault and what came of it. `problems` is empty when it went as it has to.

    Attributes:
        suspect: whom the verdict blames, or the incident when there is no verdict that names anybody.
        injected_to_seen_s: from the injection to the opened incident.
        replaced: ranks with another process than before; None is unknown.
    """

    fault: Fault
    injected: str
    truth: str
    verdict: str
    suspect: str
    reasons: tuple[str, ...]
    phases: PhaseTimes
    injected_to_seen_s: float | None
    injected_to_resumed_s: float | None
    replaced: frozenset[int] | None
    outcome: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """An injection and when it was made."""

    injection: Injection
    at: datetime
    incidents_before: int


def judge_recovery(story: JobStory, injected: Injected, lives: Lives) -> FaultResult:
    """A fault that must be recovered from, once, with the right verdict on the right suspect."""
    injection = injected.injection
    first = _incident(story, injected.incidents_before)
    if first is None:
        return _missing(injection.fault, injection.sentence, "no incident was opened")
    truth = TRUTHS[injection.fault]
    # What is judged is the last of its incidents, or the one that cost the gang a node; one that did not come is
    # counted by the job's own check.
    last = _incident(story, injected.incidents_before + truth.incidents - 1) or first
    incident = first if truth.resized else last
    ends = ["still open" if one.closed is None else one.closed.outcome for one in (first, last)[first is last :]]
    problems = [f"the incident is {end}, not recovered" for end in ends if end != "recovered"]
    closed, resumed = incident.closed, incident.resumed
    replaced = None
    if last.resumed is not None:
        versions = incident.opened.topology_version, last.resumed.topology_version
        replaced = replaced_ranks(lives, *versions, world_size=WORLD_SIZE)
        problems += _wrong_processes(injection.fault, replaced)
    verdict = story.verdict_of(incident)
    problems += _wrong_verdict(injection.fault, verdict)
    problems += _wrong_suspect(injection, incident, verdict)
    problems += _wrong_sizes(first, last) if truth.resized else _wrong_node(injection, story, incident)
    problems += _wrong_hardware(injection, story, verdict)
    problems += _wrong_together(injection, story, incident)
    problems += _wrong_checkpoint(injection, incident)
    return FaultResult(
        fault=injection.fault,
        injected=injection.sentence,
        truth=truth_words(injection.fault),
        verdict=_verdict_words(verdict),
        suspect=_suspect_words(*_suspect(incident, verdict)),
        reasons=_reasons(verdict),
        phases=closed.phases if closed else PhaseTimes(),
        injected_to_seen_s=(first.opened.opened_at - injected.at).total_seconds(),
        injected_to_resumed_s=None if resumed is None else (resumed.resumed_at - injected.at).total_seconds(),
        replaced=replaced,
        outcome="still open" if closed is None else closed.outcome,
        problems=tuple(problems),
    )


def judge_bug(story: JobStory, injection: Injection) -> FaultResult:
    """The bug: one retry, then the end with a verdict of the user's fault and no further start."""
    if not story.incidents:
        return _missing(Fault.BUG, injection.sentence, "no incident was opened")
    last = story.incidents[-1]
    verdict = story.verdict_of(last)
    problems = _wrong_verdict(Fault.BUG, verdict) + _wrong_suspect(injection, last, verdict)
    ended = story.ended
    if ended is None or ended.outcome is not JobOutcome.FAILED_USER:
        problems.append(f"the job is {'not ended' if ended is None else ended.outcome}, not failed_user")
    elif ended.restarts != 1:
        problems.append(f"{ended.restarts} restarts instead of one")
    after = [plan for plan in last.plans if plan.level is not RecoveryLevel.FAILED]
    if after:
        problems.append("a restart was planned after the verdict")
    return FaultResult(
        fault=Fault.BUG,
        injected=injection.sentence,
        truth=truth_words(Fault.BUG),
        verdict=_verdict_words(verdict),
        suspect=_suspect_words(*_suspect(last, verdict)),
        reasons=_reasons(verdict),
        phases=last.closed.phases if last.closed else PhaseTimes(),
        injected_to_seen_s=None,
        injected_to_resumed_s=None,
        replaced=None,
        outcome="not ended" if ended is None else str(ended.outcome),
        problems=tuple(problems),
    )


def whole_run_problems(
    story: JobStory, *, outcome: JobOutcome, incidents: int, left: Mapping[str, str], expected: Mapping[str, str]
) -> list[str]:
    """What must hold over one job besides its faults: its end, no incident too many, its agents' exit codes."""
    problems = []
    if story.ended is None or story.ended.outcome is not outcome:
        found = "not ended" if story.ended is None else story.ended.outcome
        problems.append(f"job {story.job_id} is {found}, not {outcome}")
    if len(story.incidents) != incidents:
        problems.append(f"job {story.job_id} had {len(story.incidents)} incidents; {incidents} faults were injected")
    for node_id, wanted in expected.items():
        if left.get(node_id) != wanted:
            problems.append(f"phalanx run on {node_id} ended with {left.get(node_id, 'nothing')}, not {wanted}")
    return problems


def _incident(story: JobStory, place: int) -> IncidentStory | None:
    return story.incidents[place] if place < len(story.incidents) else None


def _missing(fault: Fault, sentence: str, problem: str) -> FaultResult:
    return FaultResult(
        fault=fault,
        injected=sentence,
        truth=truth_words(fault),
        verdict="none",
        suspect="nobody",
        reasons=(),
        phases=PhaseTimes(),
        injected_to_seen_s=None,
        injected_to_resumed_s=None,
        replaced=None,
        outcome="none",
        problems=(problem,),
    )


def _wrong_verdict(fault: Fault, verdict: FaultClassified | None) -> list[str]:
    truth = TRUTHS[fault]
    if verdict is None:
        return ["no verdict was given"]
    if verdict.attribution is not truth.attribution or verdict.cause not in truth.causes:
        return [f"the verdict is {_verdict_words(verdict)}, the truth is {truth_words(fault)}"]
    if verdict.attribution is not Attribution.UNKNOWN and not verdict.reasons:
        return ["the verdict gives no reason"]
    if not any(truth.evidence in reason for reason in _reasons(verdict)):
        return [f"no reason of the verdict names {truth.evidence}"]
    return []


def _wrong_suspect(injection: Injection, incident: IncidentStory, verdict: FaultClassified | None) -> list[str]:
    found = _suspect(incident, verdict)
    hit = [(injection.node_id, injection.rank), *injection.also]
    if found in hit:
        return []
    truth = " and ".join(_suspect_words(*one) for one in hit)
    return [f"the suspect is {_suspect_words(*found)}, the fault was injected into {truth}"]


def _wrong_node(injection: Injection, story: JobStory, incident: IncidentStory) -> list[str]:
    """A node that is lost or sick has lost its work to one in reserve; no other has."""
    moves = [row for plan in incident.plans for row in plan.moves]
    if not TRUTHS[injection.fault].moved:
        return ["ranks were moved to another node"] if moves else []
    if len(moves) != 1 or injection.node_id in story.rank_table:
        return [f"the work of {injection.node_id} was not moved"]
    return []


def _wrong_sizes(shrunk: IncidentStory, grown: IncidentStory) -> list[str]:
    """The gang goes on without the node, and later it has its full size again."""
    sizes = [plan.nnodes for incident in (shrunk, grown) for plan in incident.plans]
    wanted = [NODES - 1, NODES]
    return [] if sizes == wanted else [f"the gang had {sizes} nodes after its plans, and {wanted} was due"]


def _wrong_hardware(injection: Injection, story: JobStory, verdict: FaultClassified | None) -> list[str]:
    """A sick GPU is blamed by its uuid and struck in the ledger; nothing else brings a node's fitness into doubt."""
    standing = story.standings.get(injection.node_id)
    if not TRUTHS[injection.fault].sick_gpu:
        blamed = standing is not None and standing.fit is Health.BAD
        return [f"{injection.node_id} was blamed: {standing.reasons}"] if blamed and standing else []
    problems = []
    if verdict is not None and verdict.culprit.gpu_uuid != injection.gpu_uuid:
        problems.append(f"the verdict blames GPU {verdict.culprit.gpu_uuid}, not {injection.gpu_uuid}")
    if injection.gpu_uuid not in story.struck:
        problems.append(f"the ledger holds nothing against {injection.gpu_uuid}")
    if standing is None or standing.fit is not Health.BAD:
        problems.append(f"{injection.node_id} counts as fit for work")
    return problems


def _wrong_together(injection: Injection, story: JobStory, incident: IncidentStory) -> list[str]:
    """Two faults of one moment: each was found, and one restart was enough for both."""
    if injection.fault is not Fault.TWO_AT_ONCE:
        return []
    problems = []
    ((node_id, rank),) = injection.also
    version = incident.opened.topology_version
    if not any((one.node_id, one.exit.rank, one.topology_version) == (node_id, rank, version) for one in story.exits):
        problems.append(f"nobody saw the end of rank {rank} on {node_id}")
    if injection.node_id not in story.lost:
        problems.append(f"nobody saw that {injection.node_id} is lost")
    if incident.closed is not None and incident.closed.attempts != 1:
        problems.append(f"it took {incident.closed.attempts} attempts to recover from two faults of one moment")
    return problems


def _wrong_checkpoint(injection: Injection, incident: IncidentStory) -> list[str]:
    """A poisoned checkpoint is stepped over, and no other is."""
    over = [(plan.checkpoint_stepped_over, plan.checkpoint_step) for plan in incident.plans]
    stepped = [(step, then) for step, then in over if step is not None]
    if not TRUTHS[injection.fault].stepped_back:
        return [f"the checkpoint of step {step} was stepped over" for step, _ in stepped]
    if len(stepped) != 1:
        return [f"{len(stepped)} checkpoints were stepped over instead of one"]
    step, then = stepped[0]
    if then is None or then >= step:
        return [f"step {step} was stepped over, and the job started from {then}"]
    return []


def _wrong_processes(fault: Fault, replaced: frozenset[int] | None) -> list[str]:
    wanted = TRUTHS[fault].replaced
    if replaced == wanted:
        return []
    return [f"new processes: {ranks_words(replaced)}; there should be new ones for {ranks_words(wanted)}"]


def ranks_words(ranks: frozenset[int] | None) -> str:
    """A set of ranks for people."""
    if ranks is None:
        return "unknown"
    if len(ranks) == WORLD_SIZE:
        return "all"
    return ", ".join(f"rank {rank}" for rank in sorted(ranks)) or "none"


def _suspect(incident: IncidentStory, verdict: FaultClassified | None) -> tuple[str, int | None]:
    """Node and rank; an empty node when nobody is named."""
    if verdict is not None and verdict.culprit.node_id:
        return verdict.culprit.node_id, verdict.culprit.rank
    return incident.opened.node_id, incident.opened.rank


def _suspect_words(node_id: str, rank: int | None) -> str:
    if not node_id:
        return "nobody"
    return node_id if rank is None else f"rank {rank}, {node_id}"


def _verdict_words(verdict: FaultClassified | None) -> str:
    return "none" if verdict is None else f"{verdict.attribution}, {verdict.cause}"


def _reasons(verdict: FaultClassified | None) -> tuple[str, ...]:
    return () if verdict is None else tuple(f"[{reason.rule_id}] {reason.sentence}" for reason in verdict.reasons)

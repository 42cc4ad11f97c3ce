"""From the first doubt to the quarantine: blamed, taken out by the breaker's leave, or let go."""

from __future__ import annotations

from dataclasses import dataclass

from fault_contracts.faults import Action
from fault_contracts.hardware import NodeStanding, OpenCondition, costs_node
from fault_contracts.health import Tier
from fault_contracts.ids import derived_id
from fault_contracts.payload import Reason
from fault_contracts.remediation import NodePhase, Rung
from recovery_planner.domain.breaker import ask_leave
from recovery_planner.domain.node_care import Care
from recovery_planner.domain.node_ladder import ORDER, first_rung, rung_of, score_at
from recovery_planner.domain.node_life import EVIDENCE_KEPT, Blame
from recovery_planner.domain.node_machine import NodeTrigger

_ON = (NodePhase.SUSPECT, NodePhase.QUARANTINED, NodePhase.DRAINING)
"""Nothing was done to the node yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBlamed:
    """A verdict asks for an action on a node.

    Attributes:
        observed: the job of the verdict only observes.
    """

    blame: Blame
    observed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameWithdrawn:
    """A later verdict replaces the one that began the story, and does not ask for this node any more."""

    evidence_id: str
    sentence: str


def node_blamed(care: Care, event: NodeBlamed) -> None:
    """Begin a story, or join the one that is on."""
    blame, life = event.blame, care.life
    ids = (blame.evidence_id, *blame.also)
    if blame.evidence_id in life.evidence_ids:
        care.explain("report.repeated", f"{blame.evidence_id} about {life.node_id} is known")
        return
    reason = care.explain("node.blamed", f"{life.node_id}: {blame.sentence}", blame.evidence_id)
    known = (*life.evidence_ids, *ids)[-EVIDENCE_KEPT:]
    if event.observed:
        care.change(evidence_ids=known)
        care.withhold(str(blame.action), "observe", reason)
        return
    if any(each in life.evidence_ids for each in ids) and life.phase in (NodePhase.OK, NodePhase.PROBATION):
        # The same fault under another id: its story is over.
        care.change(evidence_ids=known)
        return
    care.change(evidence_ids=known)
    match life.phase:
        case NodePhase.OK | NodePhase.PROBATION:
            _begin(care, blame, reason)
        case NodePhase.SUSPECT | NodePhase.QUARANTINED | NodePhase.DRAINING:
            _join(care, blame)
        case NodePhase.REMEDIATING | NodePhase.VALIDATING | NodePhase.LISTED | NodePhase.REPLACED:
            care.explain("node.blamed_again", f"{life.node_id} is {life.phase} already")


def blame_withdrawn(care: Care, event: BlameWithdrawn) -> None:
    """Let the node go, if nothing was done to it yet."""
    blame = care.life.blame
    if blame is None or blame.evidence_id != event.evidence_id or care.life.phase not in _ON:
        care.explain("report.stale", f"{event.evidence_id} is taken back; nothing waits for it")
        return
    if care.stands_badly or care.life.is_by_person:
        care.explain("node.still_bad", f"{event.sentence}; but something else speaks against {care.life.node_id}")
        return
    drop(care, care.explain("node.cleared", event.sentence, event.evidence_id))


def read_standing(care: Care) -> None:
    """What the node's own standing says against it, as blame. Conditions and held devices are known by their ids."""
    standing = care.around.standing
    if standing is None or care.policy.ladder is None or care.life.is_by_person:
        return
    for blame in blames_of(standing):
        if not any(each in care.life.evidence_ids for each in (blame.evidence_id, *blame.also)):
            node_blamed(care, NodeBlamed(blame=blame))


def blames_of(standing: NodeStanding) -> list[Blame]:
    """One for each device that is held, and for each failure that asks for an action on the node."""
    held = [
        Blame(
            # Released and held again later is another matter.
            evidence_id=derived_id(each.device_id, "held", each.by, each.reason),
            action=Action.REPLACE_NODE,
            cause="device_held",
            sentence=f"{each.device_id} is in quarantine: {each.reason}"[:2_000],
            gpu_uuid=each.device_id,
            by_standing=True,
        )
        for each in standing.held
    ]
    failures = [
        each for each in standing.conditions if each.tier is Tier.FAILURE and costs_node(each.device) and each.device
    ]
    return [*held, *map(_blame_of, failures)]


def _blame_of(condition: OpenCondition) -> Blame:
    device = condition.device
    assert device is not None, "costs_node said so"
    return Blame(
        evidence_id=condition.condition_id,
        action=device.action,
        cause=condition.check,
        sentence=condition.reason[:2_000],
        gpu_uuid=device.gpu_uuid,
        by_standing=True,
    )


def drop(care: Care, reason: Reason) -> None:
    """Back to where it was before the story."""
    life = care.life
    care.end_trial(well=False)
    if life.phase is not NodePhase.SUSPECT:
        care.change(score=max(0.0, life.score - 1.0))  # it was counted when it was taken
    until = life.probation_until
    if until is not None and care.now < until:
        left_s = (until - care.now).total_seconds()
        care.move(NodeTrigger.DROPPED_ON_PROBATION, reason, deadline_s=left_s, blame=None, operation=None)
    else:
        care.move(NodeTrigger.DROPPED, reason, blame=None, operation=None, rung=None, probation_until=None)


def suspect(care: Care) -> None:
    """Take it out of use, if that may be."""
    life, ladder = care.life, care.policy.ladder
    blame = life.blame
    assert blame is not None, "a node is suspect because of something"
    if ladder is None:
        drop(care, care.explain("ladder.none", "this cluster has no ladder; nothing is done to nodes"))
        return
    if blame.by_standing and not care.stands_badly:
        drop(care, care.explain("node.well_again", f"{life.node_id} has nothing against it any more"))
        return
    age_s = (care.now - life.since).total_seconds()
    if age_s >= ladder.suspect_s and not care.stands_badly:
        drop(care, care.explain("node.dropped", f"{life.node_id} was not taken within {ladder.suspect_s:g} s"))
        return
    action = str(blame.action)
    if care.policy.dry_run:
        sentence = f"{life.node_id} would be taken out of use for {action}: {blame.sentence}"
        care.withhold(action, "dry_run", care.explain("cluster.dry_run", sentence, blame.evidence_id))
        _look_again(care, ladder.suspect_s - age_s)
        return
    if life.deadline_at is not None and not care.is_due:
        return  # it asked a moment ago
    leave = ask_leave(care.breaker, life.node_id, care.around.census, now=care.now, policy=care.policy.breaker)
    care.set_breaker(leave.breaker)
    if not leave.granted:
        care.withhold(action, "breaker", leave.reason)
        _look_again(care, ladder.retry_s)
        return
    care.reasons.append(leave.reason)
    strikes = score_at(life.score, life.scored_at, care.now, care.policy.probation) + 1.0
    care.change(taken_at=care.now, on_trial=leave.on_trial, score=strikes, scored_at=care.now)
    care.move(NodeTrigger.TAKEN, life.reason)


def _look_again(care: Care, after_s: float) -> None:
    until = care.in_s(max(after_s, care.ladder.retry_s))
    if care.life.deadline_at is None or care.is_due:
        care.change(deadline_at=until)


def _begin(care: Care, blame: Blame, reason: Reason) -> None:
    if care.policy.ladder is None or rung_of(blame.action) is None:
        care.explain("ladder.none", f"nothing is done to {care.life.node_id}: this cluster has no ladder for it")
        return
    care.move(
        NodeTrigger.BLAMED,
        reason,
        blame=blame,
        story=care.life.story + 1,
        # The rung that brought it back counts while its probation runs.
        rung=care.life.rung if care.life.phase is NodePhase.PROBATION else None,
        rungs_done=(),
        rounds=0,
        operation=None,
        on_trial=False,
        vouched=False,
        withheld=(),
    )


def _join(care: Care, blame: Blame) -> None:
    """More evidence, before anything was done: the graver wish counts, and what names a job or a device is kept."""
    old = care.life.blame
    asked = rung_of(blame.action)
    if old is None or care.life.is_by_person or asked is None:
        return
    before = rung_of(old.action) or Rung.RESET_GPU
    graver = ORDER[asked] > ORDER[before]
    merged = Blame(
        evidence_id=blame.evidence_id if blame.fault_id else old.evidence_id,
        action=blame.action if graver else old.action,
        cause=blame.cause if blame.fault_id or graver else old.cause,
        sentence=blame.sentence if graver else old.sentence,
        gpu_uuid=old.gpu_uuid or blame.gpu_uuid,
        job_id=old.job_id or blame.job_id,
        fault_id=blame.fault_id or old.fault_id,
        also=tuple(dict.fromkeys((*old.also, old.evidence_id, *blame.also)))[:EVIDENCE_KEPT],
        by_standing=old.by_standing and blame.by_standing,
    )
    care.change(blame=merged)
    care.explain("node.blamed_again", f"{care.life.node_id}: {blame.sentence}", blame.evidence_id)


def rung_to_begin(care: Care) -> tuple[Rung | None, str]:
    """Where this story's ladder begins."""
    life = care.life
    blame = life.blame
    asked = Rung.REBOOT_NODE if blame is None else rung_of(blame.action) or Rung.REBOOT_NODE
    return first_rung(
        asked,
        care.ladder,
        before=life.rung,
        strikes=life.score,
        device_known=blame is not None and bool(blame.gpu_uuid),
    )

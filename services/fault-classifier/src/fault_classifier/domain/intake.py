"""How a message becomes evidence, and how evidence is kept inside its bounds."""

from __future__ import annotations

from dataclasses import replace

from fault_classifier.domain.evidence import (
    DEVICES_MAX,
    EXITS_MAX,
    FAULTED_MAX,
    FRAMES_MAX,
    MESSAGE_MAX,
    NOTES_MAX,
    SURROUNDINGS_MAX,
    TAIL_LINE_MAX,
    TAIL_LINES_MAX,
    DeviceFault,
    Exit,
    Faulted,
    Generation,
    LostNode,
    Note,
    Piece,
    Raised,
    Surrounding,
)
from fault_classifier.domain.log_row import LogRow, add_rows
from fault_classifier.domain.recurrence import was_killed
from fault_classifier.domain.victim import victim_reason
from fault_contracts.faults import Attribution
from fault_contracts.findings import FindingsReported
from fault_contracts.health import ConditionRaised
from fault_contracts.ids import derived_id
from fault_contracts.recovery import NodeFaulted, NodeLost

WHOLE_EXITS = 4
"""Deaths kept with their last lines; the others say the same or less. Keeps a record well under the bus's 1 MB."""
SLIM_MESSAGE_MAX = 160
SENTENCE_MAX = 300
"""Of something around the job."""


def from_condition(raised: ConditionRaised) -> Exit | Faulted | Note:
    """Evidence from a failure condition of a job."""
    worker, faulted = raised.worker, raised.faulted
    if faulted is not None:
        return Faulted(
            evidence_id=raised.condition_id,
            node_id=raised.node_id,
            check=raised.check,
            rule_id=faulted.rule_id,
            sentence=raised.reason[:MESSAGE_MAX],
            ranks=faulted.ranks,
            pid=faulted.pid,
            step=faulted.step,
            checkpoint_step=faulted.checkpoint_step,
            place=faulted.place,
        )
    if worker is None:
        return Note(
            evidence_id=raised.condition_id,
            node_id=raised.node_id,
            check=raised.check,
            sentence=raised.reason[:MESSAGE_MAX],
        )
    error = worker.error
    return Exit(
        evidence_id=raised.condition_id,
        node_id=raised.node_id,
        status=worker.exit,
        ordinal=worker.ordinal,
        error=None
        if error is None
        else Raised(
            type=error.type,
            message=error.message[:MESSAGE_MAX],
            fingerprint=error.fingerprint,
            frames=error.frames[-FRAMES_MAX:],
        ),
        step=worker.step,
        checkpoint_step=worker.checkpoint_step,
        ran_s=worker.ran_s,
        stderr_tail=tuple(line[:TAIL_LINE_MAX] for line in worker.stderr_tail[-TAIL_LINES_MAX:]),
        asked=worker.restart_asked,
    )


def from_lost_node(lost: NodeLost) -> LostNode:
    """Evidence from the planner's finding that an agent is gone.

    The id comes from the node and the generation, so that a second finding about the same loss adds nothing.
    """
    return LostNode(
        evidence_id=derived_id(lost.job_id, "node_lost", lost.topology_version, lost.node_id),
        node_id=lost.node_id,
        sentence=lost.reason.sentence[:MESSAGE_MAX],
    )


def from_node_fault(faulted: NodeFaulted) -> DeviceFault | Note:
    """Evidence from a device that failed. What the policy takes for the user's own is noted and blames no hardware."""
    raised, device = faulted.condition, faulted.condition.device
    if device is None or device.origin is Attribution.USER:
        return Note(
            evidence_id=raised.condition_id,
            node_id=raised.node_id,
            check=raised.check,
            sentence=raised.reason[:MESSAGE_MAX],
            xid=None if device is None else device.xid,
            device="" if device is None else device.gpu_uuid or device.pci_bus_id,
        )
    return DeviceFault(
        evidence_id=raised.condition_id,
        node_id=raised.node_id,
        check=raised.check,
        component=str(raised.component),
        component_id=raised.component_id,
        sentence=raised.reason[:MESSAGE_MAX],
        rule_id=device.rule_id,
        origin=device.origin,
        action=device.action,
        gpu_uuid=device.gpu_uuid,
        board_serial=device.board_serial,
        xid=device.xid,
        sxid=device.sxid,
        driver_action=device.driver_action,
        process=device.process or ("" if device.pid is None else f"pid {device.pid}"),
    )


def from_findings(reported: FindingsReported) -> tuple[LogRow, ...]:
    """Rows from what an agent's signatures found."""
    return tuple(
        LogRow(
            kind=found.kind,
            role=found.role,
            signature_id=found.signature_id,
            node_id=reported.node_id,
            rank=found.rank,
            stream=found.stream,
            ordinal=found.ordinal,
            process="" if found.pid is None else str(found.pid),
            device=found.device,
            text=found.excerpt,
            captures=dict(found.captures),
            count=found.count,
        )
        for found in reported.findings
    )


def from_surrounding_condition(raised: ConditionRaised) -> Surrounding:
    """What is the matter with a node, whatever its tier: it explains, and is no fault of a job by itself."""
    device = raised.device
    captures = {"tier": str(raised.tier), "component": str(raised.component)}
    if device is not None:
        captures |= {"origin": str(device.origin), "sympathetic": "yes" if device.sympathetic else "no"}
    return Surrounding(
        evidence_id=raised.condition_id,
        kind=raised.check,
        node_id=raised.node_id,
        sentence=raised.reason[:SENTENCE_MAX],
        device=(device.gpu_uuid if device is not None else "") or raised.component_id,
        captures=captures,
        rule_id=device.rule_id if device is not None else "",
        count=raised.count,
        xid=None if device is None else device.xid,
        sxid=None if device is None else device.sxid,
    )


def add_log_rows(generation: Generation, rows: tuple[LogRow, ...], dropped: int) -> Generation:
    """The generation with more findings of its logs; the same when they were there."""
    grown = add_rows(generation.rows, rows)
    dropped = max(generation.rows_dropped, dropped)
    if grown is generation.rows and dropped == generation.rows_dropped:
        return generation
    return replace(generation, rows=grown, rows_dropped=dropped)


def add_surroundings(generation: Generation, new: tuple[Surrounding, ...]) -> Generation:
    """The generation with what was the matter around it; newest last, the oldest go."""
    known = {each.evidence_id: each for each in generation.surroundings}
    grown = {**known, **{each.evidence_id: each for each in new}}
    # A device that failed stands in the evidence itself.
    failed = {each.evidence_id for each in generation.devices}
    kept = tuple(each for name, each in grown.items() if name not in failed)[-SURROUNDINGS_MAX:]
    return generation if kept == generation.surroundings else replace(generation, surroundings=kept)


def add(generation: Generation, piece: Piece) -> Generation:
    """The generation with one more piece; the same when it was there."""
    if generation.knows(piece.evidence_id):
        return generation
    if isinstance(piece, LostNode):
        if len(generation.lost) >= EXITS_MAX:
            return generation
        return replace(generation, lost=(*generation.lost, piece))
    if isinstance(piece, Faulted):
        if len(generation.faulted) >= FAULTED_MAX:
            return generation
        return replace(generation, faulted=(*generation.faulted, piece))
    if isinstance(piece, DeviceFault):
        if len(generation.devices) >= DEVICES_MAX:
            return generation
        return replace(generation, devices=(*generation.devices, piece))
    if isinstance(piece, Note):
        if len(generation.notes) >= NOTES_MAX:
            return generation
        return replace(generation, notes=(*generation.notes, piece))
    return _add_exit(generation, piece)


def compact(generation: Generation) -> Generation:
    """What of an older generation later rules may still ask for: deaths that stood for themselves, without texts."""
    if generation.compacted and len(generation.exits) <= WHOLE_EXITS and len(generation.faulted) <= WHOLE_EXITS:
        return generation
    alone = [slim(each) for each in generation.exits if victim_reason(each) is None]
    # A kill first: it is what makes the exceptions beside it prove nothing.
    kept = [_frameless(each) for each in sorted(alone, key=lambda each: not was_killed(each))[:WHOLE_EXITS]]
    dropped = generation.exits_dropped + len(generation.exits) - len(kept)
    verdict = generation.verdict
    if verdict is not None and len(verdict.summary) > SLIM_MESSAGE_MAX:
        # It is out; only what a revision would be compared with stays.
        texts = {
            "reasons": verdict.reasons[:1],
            "counter_evidence": (),
            "alternatives": (),
            "decide": (),
            "summary": verdict.summary[:SLIM_MESSAGE_MAX],
        }
        verdict = verdict.model_copy(update=texts)
    return replace(
        generation,
        exits=tuple(kept),
        exits_dropped=dropped,
        faulted=tuple(_short(each) for each in generation.faulted[:WHOLE_EXITS]),
        devices=tuple(
            replace(each, sentence=each.sentence[:SLIM_MESSAGE_MAX]) for each in generation.devices[:WHOLE_EXITS]
        ),
        notes=(),
        rows=(),
        surroundings=(),
        judged=(),
        deadline_at=None,
        quiet_at=None,
        verdict=verdict,
        closed=True,
        compacted=True,
    )


def slim(exit_: Exit) -> Exit:
    """Without what only a reader of the verdict wants; what the rules read stays."""
    error = exit_.error
    if error is not None:
        # A communication error names its layer at the beginning of its message, so a cut keeps a victim a victim.
        error = replace(error, message=error.message[:SLIM_MESSAGE_MAX])
    slimmer = replace(exit_, error=error, stderr_tail=())
    return slimmer if victim_reason(slimmer) == victim_reason(exit_) else exit_


def _frameless(exit_: Exit) -> Exit:
    """Frames tell a victim from others; these are none, and without frames they are none either."""
    return exit_ if exit_.error is None else replace(exit_, error=replace(exit_.error, frames=()))


def _short(faulted: Faulted) -> Faulted:
    return replace(faulted, sentence=faulted.sentence[:SLIM_MESSAGE_MAX], ranks=faulted.ranks[:WHOLE_EXITS])


def _add_exit(generation: Generation, exit_: Exit) -> Generation:
    stands_alone = victim_reason(exit_) is None
    kept = exit_ if len(generation.exits) < WHOLE_EXITS else slim(exit_)
    if len(generation.exits) < EXITS_MAX:
        return replace(generation, exits=(*generation.exits, kept))
    if stands_alone:
        victims = [place for place, each in enumerate(generation.exits) if victim_reason(each) is not None]
        if victims:
            others = tuple(each for place, each in enumerate(generation.exits) if place != victims[-1])
            return replace(generation, exits=(*others, kept), exits_dropped=generation.exits_dropped + 1)
    return replace(generation, exits_dropped=generation.exits_dropped + 1)

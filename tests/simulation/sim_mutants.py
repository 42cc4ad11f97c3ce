"""Rules broken on purpose, each as a patch of the running code: they show what the checkers are worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from node_agent.domain import fence
from recovery_planner.application import replace_nodes, tend_nodes
from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.application.publish_effects import EffectPublisher
from recovery_planner.domain import (
    breaker,
    checkpoint,
    checkpoint_history,
    culprit,
    elastic,
    membership,
    node_faults,
    node_fit,
    node_fitness,
    node_remedy,
    plan,
    regrow,
    step_back,
    verdict,
)
from recovery_planner.domain.budget import Budget
from recovery_planner.domain.gang import Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One broken rule, and a checker that must see it (others may see it first).

    Attributes:
        story: the file that tells the rare moment in which it matters; empty: the seeds meet it often enough.
    """

    name: str
    breaks: tuple[str, ...]
    patches: Callable[[], list[Any]]
    story: str = ""


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """The code with the rule broken."""
    with ExitStack() as stack:
        for each in mutant.patches():
            stack.enter_context(each)
        yield


async def _publish_first(self: AdvanceGang, desk: Any, fresh: list[Any]) -> None:
    """AdvanceGang._cycle with its two effects in the wrong order."""
    if not desk.loaded:
        await self._load(desk)
    self._decide_all(desk, fresh)
    if desk.gang is None:
        return
    desk.doubtful = False
    if desk.gang.pending:
        await self._publisher.publish(desk.gang)
        desk.gang = replace(desk.gang, pending=())
        desk.dirty = True
    if desk.dirty:
        desk.revision = await self._store.save(desk.gang, desk.revision)
        desk.dirty = False


async def _clear_first(self: AdvanceGang, desk: Any, fresh: list[Any]) -> None:
    """The record forgets what it owes before that is published."""
    if not desk.loaded:
        await self._load(desk)
    self._decide_all(desk, fresh)
    if desk.gang is None:
        return
    desk.doubtful = False
    owing, desk.gang = desk.gang, replace(desk.gang, pending=())
    if desk.dirty or owing.pending:
        first = await self._store.save(owing, desk.revision)
        desk.revision = await self._store.save(desk.gang, first)
        desk.dirty = False
    if owing.pending:
        await self._publisher.publish(owing)


def _obey_anything(command: Any, *, newest: Any, done_before: bool, now: Any) -> Any:
    if done_before or command.expires_at <= now:
        return _JUDGE(command, newest=newest, done_before=done_before, now=now)
    return _JUDGE(command, newest=fence.NOTHING_SEEN, done_before=False, now=now)


_JUDGE = fence.judge


def _for_nothing(spec: Any, _restarts: Any, _now: Any, **_limits: Any) -> Budget:
    return Budget(restarts=(), left=spec.restarts_max, sentence="nobody counts")


def _whoever_is_named(said: Any) -> str:
    return str(said.culprit_node_id)


def _anonymous(self: EffectPublisher, gang: Gang, effect: Any, payload: Any) -> Any:
    """Message ids that do not follow from their cause."""
    envelope = _ENVELOPE(self, gang, effect, payload)
    _COUNT[0] += 1
    return envelope.model_copy(update={"id": f"{_COUNT[0]:032x}"})


_ENVELOPE = EffectPublisher._envelope
_COUNT = [0]


def _newest_of_all(draft: Any) -> Any:
    """Step back without a step back."""
    return checkpoint.choose(draft.history, draft.gang.starts, found=draft.gang.checkpoint_found)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="publish before persist",
        breaks=("record_first",),
        patches=lambda: [patch.object(AdvanceGang, "_cycle", _publish_first)],
    ),
    Mutant(
        name="clear before publish",
        breaks=("record_first", "incident_ends", "journal"),
        patches=lambda: [patch.object(AdvanceGang, "_cycle", _clear_first)],
    ),
    Mutant(
        name="obey an older fence",
        breaks=("fence", "one_topology", "incident_ends"),
        story="late_spare_hears_old_commands",
        patches=lambda: [patch.object(fence, "judge", _obey_anything)],
    ),
    Mutant(
        name="a stop of an earlier life is always owed",
        breaks=("fence", "incident_ends"),
        patches=lambda: [patch.object(fence, "owed", lambda _command, _newest: True)],
    ),
    Mutant(
        name="restarts are not charged",
        breaks=("budget",),
        patches=lambda: [patch.object(plan, "budget_at", _for_nothing)],
    ),
    Mutant(
        name="start from an unconfirmed step",
        breaks=("confirmed_step",),
        patches=lambda: [patch.object(checkpoint_history, "is_complete", lambda _c, _r: True)],
    ),
    Mutant(
        name="start from an overwritten step",
        breaks=("confirmed_step",),
        story="overwritten_step",
        patches=lambda: [patch.object(checkpoint, "is_overwritten", lambda _c, _s: False)],
    ),
    Mutant(
        name="nobody is waited for",
        breaks=("one_topology",),
        patches=lambda: [patch.object(Gang, "_awaited", lambda _gang: iter(()))],
    ),
    Mutant(
        name="a user's fault costs a node",
        breaks=("user_fault",),
        patches=lambda: [patch.object(culprit, "blamed_node", _whoever_is_named)],
    ),
    Mutant(
        name="message ids from a counter",
        breaks=("record_first", "journal"),
        patches=lambda: [patch.object(EffectPublisher, "_envelope", _anonymous)],
    ),
    Mutant(
        name="a listed device is not held back",
        breaks=("listed_device",),
        story="listed_node_stays_out",
        patches=lambda: [
            patch.object(node_fitness, "hold_back", lambda _draft, _member: None),
            patch.object(node_faults, "hold_back", lambda _draft, _member: None),
            patch.object(culprit, "blamed_node", lambda _verdict: ""),
        ],
    ),
    Mutant(
        name="the old life's ranks are taken for alive",
        breaks=("incident_ends",),
        patches=lambda: [patch.object(membership, "fault", lambda *_args, **_kw: None)],
    ),
    Mutant(
        name="a lost agent breaks nothing",
        breaks=("incident_ends",),
        patches=lambda: [patch.object(membership, "lose", lambda *_args, **_kw: None)],
    ),
    Mutant(
        name="what is stepped over is chosen again",
        breaks=("stepped_over",),
        story="poisoned_checkpoint",
        patches=lambda: [patch.object(step_back, "_older", _newest_of_all)],
    ),
    Mutant(
        name="steps back without a limit",
        breaks=("stepped_over",),
        story="two_poisoned_checkpoints",
        patches=lambda: [patch.object(step_back, "_exhausted", lambda gang: not gang.starts)],
    ),
    Mutant(
        name="a gang of any size",
        breaks=("size",),
        story="shrinks_and_grows",
        patches=lambda: [patch.object(elastic, "is_allowed", lambda *_args, **_kw: True)],
    ),
    Mutant(
        name="never grows again",
        breaks=("incident_ends",),
        story="shrinks_and_grows",
        patches=lambda: [patch.object(regrow, "seats_grown", lambda _gang, seats, _rules: seats)],
    ),
    Mutant(
        name="nobody asks whether ranks are there",
        breaks=("harmless",),
        story="boot_waits_for_the_ranks",
        patches=lambda: [patch.object(tend_nodes, "may_have_ranks", lambda _gang, _node_id: False)],
    ),
    Mutant(
        name="a bad board has another name now",
        breaks=("out_of_use",),
        story="bad_board_comes_back",
        patches=lambda: [
            patch.object(module, "known_bad", lambda _node_id, _standing, _book: None)
            for module in (tend_nodes, replace_nodes)
        ],
    ),
    Mutant(
        name="the breaker never opens",
        breaks=("breaker",),
        story="breaker_opens",
        patches=lambda: [patch.object(breaker, "_full", lambda *_args: None)],
    ),
    Mutant(
        name="gangs are not told that a node is out",
        breaks=("out_of_use", "harmless", "node_story"),
        story="out_of_use_for_long",
        patches=lambda: [
            patch.object(tend_nodes, "fit_of_life", lambda _life, **_kw: node_fit.ADMITTED),
            patch.object(verdict, "blame_late", lambda _draft, _new: False),
        ],
    ),
    Mutant(
        name="the gate never opens",
        breaks=("node_story",),
        story="reset_gate_probation",
        patches=lambda: [patch.object(node_remedy, "_leave_gate", lambda _care: None)],
    ),
)

"""No planner is heard: training goes on, what cannot train is stopped, and nothing happens before the limit."""

import pytest

from node_agent.domain.dead_man import TABLE, Act, DeadManPolicy, DeadManStep, PlannerLost, Ranks, step

KEEP = DeadManPolicy(silence_s_max=60.0, on_lost=PlannerLost.KEEP)
STOP = DeadManPolicy(silence_s_max=60.0, on_lost=PlannerLost.STOP)


def look(silent_s: float, ranks: Ranks, policy: DeadManPolicy = KEEP, *, was_silent: bool = False) -> DeadManStep:
    return step(was_silent=was_silent, silent_s=silent_s, ranks=ranks, policy=policy)


@pytest.mark.parametrize("ranks", list(Ranks))
@pytest.mark.parametrize("policy", [KEEP, STOP], ids=["keep", "stop"])
def test_before_the_limit_nothing_is_done_whatever_the_ranks_do(ranks: Ranks, policy: DeadManPolicy) -> None:
    found = look(59.9, ranks, policy)
    assert (found.act, found.silent, found.news) == (Act.NOTHING, False, False)


def test_every_situation_is_in_the_table() -> None:
    assert set(TABLE) == {(ranks, lost) for ranks in Ranks for lost in PlannerLost}


@pytest.mark.parametrize(
    ("ranks", "policy", "act"),
    [
        (Ranks.TRAIN, KEEP, Act.NOTHING),
        (Ranks.TRAIN, STOP, Act.STOP),
        (Ranks.BROKEN, KEEP, Act.STOP),
        (Ranks.BROKEN, STOP, Act.STOP),
        (Ranks.NONE, KEEP, Act.NOTHING),
        (Ranks.NONE, STOP, Act.NOTHING),
    ],
)
def test_past_the_limit_the_policy_decides_about_healthy_ranks_only(
    ranks: Ranks, policy: DeadManPolicy, act: Act
) -> None:
    found = look(60.0, ranks, policy)
    assert (found.act, found.silent) == (act, True)
    assert "no planner was heard for 60 s" in found.reason.sentence
    assert found.reason.rule_id == f"dead_man.{ranks}"


def test_the_silence_is_news_once_and_so_is_its_end() -> None:
    assert look(60.0, Ranks.TRAIN).news
    assert not look(61.0, Ranks.TRAIN, was_silent=True).news
    back = look(0.1, Ranks.TRAIN, was_silent=True)
    assert (back.news, back.silent, back.reason.sentence) == (True, False, "the planner is back")

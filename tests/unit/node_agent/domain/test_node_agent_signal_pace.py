"""How often a state that may change with every line becomes a signal."""

from node_agent.domain.signal_pace import GOOD_SAMPLES, Pace, Paced, due, seen

PACE = Pace(change_s=10.0, repeat_s=60.0)
ONCE = Pace(change_s=10.0)


def told(pace: Pace, states: list[bool], *, every_s: float) -> list[tuple[float, bool]]:
    """When a signal leaves while the state is observed regularly."""
    paced, out = Paced(), []
    for number, is_bad in enumerate(states):
        paced, is_due = due(seen(paced, is_bad=is_bad), pace, now_s=number * every_s)
        if is_due:
            out.append((number * every_s, is_bad))
    return out


def test_what_is_good_from_the_beginning_is_not_told() -> None:
    assert told(PACE, [False] * 100, every_s=10.0) == []


def test_a_bad_state_is_told_at_once_and_again_only_where_it_repeats() -> None:
    assert told(ONCE, [True] * 100, every_s=5.0) == [(0.0, True)]
    assert told(PACE, [True] * 30, every_s=5.0) == [(0.0, True), (60.0, True), (120.0, True)]


def test_good_again_is_told_as_often_as_it_takes_to_be_believed() -> None:
    signals = told(ONCE, [True] + [False] * 100, every_s=5.0)
    assert signals == [(0.0, True), (10.0, False), (20.0, False), (30.0, False)]
    assert len(signals) == 1 + GOOD_SAMPLES


def test_flapping_with_every_line_costs_a_signal_each_ten_seconds() -> None:
    signals = told(ONCE, [True, False] * 30_000, every_s=0.001)
    assert len(signals) <= 7


def test_news_of_a_bad_state_is_told_after_the_least_distance() -> None:
    paced, is_due = due(seen(Paced(), is_bad=True), ONCE, now_s=0.0)
    assert is_due
    paced, is_due = due(seen(paced, is_bad=True, news=True), ONCE, now_s=1.0)
    assert not is_due
    paced, is_due = due(paced, ONCE, now_s=10.0)
    assert is_due
    assert due(paced, ONCE, now_s=50.0)[1] is False


def test_it_is_settled_when_the_last_good_sample_is_out() -> None:
    paced, _ = due(seen(Paced(), is_bad=True), ONCE, now_s=0.0)
    for number in range(GOOD_SAMPLES):
        assert not paced.is_settled
        paced, _ = due(seen(paced, is_bad=False), ONCE, now_s=10.0 * (number + 1))
    assert paced.is_settled

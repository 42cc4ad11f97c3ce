"""The breaker's limits hold whatever happens, and it finds back by itself."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from fault_contracts.cluster_policy import BreakerPolicy
from fault_contracts.remediation import BreakerState
from recovery_planner.domain.breaker import Breaker, Census, Leave, ask_leave, settle_trial, share_limit

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
POLICY = BreakerPolicy(share_max=0.5, nodes_max=2, window_s=100, open_s=50)


def ask(breaker: Breaker, node: str, at_s: float, *, out: int = 0, known: int = 10) -> Leave:
    census = Census(known=known, out=out)
    return ask_leave(breaker, node, census, now=NOON + timedelta(seconds=at_s), policy=POLICY)


def opened() -> Breaker:
    breaker = Breaker()
    for second in range(3):
        breaker = ask(breaker, f"n{second}", second).breaker
    assert breaker.state is BreakerState.OPEN
    return breaker


def test_the_count_of_a_window_opens_it() -> None:
    breaker = Breaker()
    for second in range(2):
        leave = ask(breaker, f"n{second}", second)
        assert leave.granted
        breaker = leave.breaker
    refused = ask(breaker, "n2", 2)
    assert not refused.granted
    assert refused.reason.rule_id == "breaker.count"
    assert refused.breaker.state is BreakerState.OPEN


def test_what_the_window_has_let_go_counts_no_more() -> None:
    breaker = ask(ask(Breaker(), "n0", 0).breaker, "n1", 1).breaker
    assert ask(breaker, "n2", 100.5).granted


def test_the_share_of_nodes_out_of_use_opens_it() -> None:
    refused = ask(Breaker(), "n1", 0, out=5)
    assert not refused.granted
    assert refused.reason.rule_id == "breaker.share"


def test_a_small_cluster_may_take_one_node() -> None:
    assert share_limit(POLICY, 1) == 1
    assert ask(Breaker(), "n1", 0, out=0, known=1).granted


def test_while_it_is_open_nothing_is_taken() -> None:
    assert ask(opened(), "n9", 51).reason.rule_id == "breaker.open"


def test_after_a_while_one_is_tried_and_no_other() -> None:
    tried = ask(opened(), "n8", 53)
    assert tried.granted
    assert tried.on_trial
    assert ask(tried.breaker, "n9", 54).reason.rule_id == "breaker.half_open"


def test_a_trial_that_went_well_closes_it() -> None:
    tried = ask(opened(), "n8", 53).breaker
    closed = settle_trial(tried, "n8", well=True, now=NOON + timedelta(seconds=60))
    assert closed.state is BreakerState.CLOSED
    assert ask(closed, "n9", 61).granted


def test_a_trial_that_failed_opens_it_anew() -> None:
    tried = ask(opened(), "n8", 53).breaker
    again = settle_trial(tried, "n8", well=False, now=NOON + timedelta(seconds=60))
    assert again.state is BreakerState.OPEN
    assert not ask(again, "n9", 100).granted
    assert ask(again, "n9", 110).granted


def test_the_end_of_another_node_moves_nothing() -> None:
    tried = ask(opened(), "n8", 53).breaker
    assert settle_trial(tried, "n1", well=True, now=NOON) is tried


def test_a_trial_does_not_exceed_the_share() -> None:
    refused = ask(opened(), "n8", 53, out=5)
    assert not refused.granted
    assert refused.breaker.state is BreakerState.OPEN


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.floats(0.1, 60.0), st.booleans(), st.booleans()),
        min_size=5,
        max_size=120,
    ),
    share_max=st.floats(0.05, 1.0),
    nodes_max=st.integers(1, 5),
    open_s=st.floats(1.0, 200.0),
)
def test_limits_hold(steps: list[tuple[float, bool, bool]], share_max: float, nodes_max: int, open_s: float) -> None:
    policy = BreakerPolicy(share_max=share_max, nodes_max=nodes_max, window_s=100.0, open_s=open_s)
    breaker, at_s, known = Breaker(), 0.0, 20
    out: list[str] = []
    plain: list[float] = []
    for number, (gap_s, ends, well) in enumerate(steps):
        at_s += gap_s
        now = NOON + timedelta(seconds=at_s)
        if out and ends:
            breaker = settle_trial(breaker, out.pop(0), well=well, now=now)
            if breaker.state is BreakerState.CLOSED and breaker.takes == ():
                plain.clear()  # forgiven by a trial that went well
        leave = ask_leave(breaker, f"n{number}", Census(known=known, out=len(out)), now=now, policy=policy)
        breaker = leave.breaker
        if not leave.granted:
            continue
        if leave.on_trial:
            assert breaker.trial == f"n{number}"
        else:
            plain = [each for each in plain if each > at_s - 100.0] + [at_s]
        out.append(f"n{number}")
        assert len(out) <= share_limit(policy, known)
        assert len(plain) <= nodes_max

"""A gang that shrinks and grows in the simulation, by the planner's own word."""

from dataclasses import replace

import pytest
from test_phalanx_cli_simulate_engine import GPU, costs_for, named, one, run

from fault_contracts.policy import ElasticPolicy, PolicyMode, RecoveryPolicy
from phalanx_cli.elastic_play import Sizes
from phalanx_cli.simulate.contestants import Contestant, default_recovery
from phalanx_cli.simulate.engine import Cluster, simulate
from phalanx_cli.simulate.faults import DAY_S, LightShares, Need
from phalanx_cli.simulate.rates import rate_trace

RULES = ElasticPolicy(nnodes_min=2, wait_s=60.0, snooze_s=600.0)


def elastic(name: str, rules: ElasticPolicy | None) -> Contestant:
    return named(name, costs_for(), recovery=default_recovery().model_copy(update={"elastic": rules}))


def test_sizes_are_the_planners() -> None:
    sizes = Sizes(RecoveryPolicy(elastic=ElasticPolicy(nnodes_min=4, replica_nodes=2)), 8)
    assert [sizes.without(8, holes) for holes in (1, 2, 3, 4, 5)] == [6, 6, 4, 4, None]
    assert [sizes.grown(4, free) for free in (0, 1, 2, 3, 9)] == [4, 4, 6, 6, 8]
    named_sizes = RecoveryPolicy(elastic=ElasticPolicy(nnodes_min=4, nnodes_allowed=(4, 7)))
    assert Sizes(named_sizes, 8).without(8, 2) == 4


def test_without_elastic_and_while_it_observes_a_job_keeps_its_size() -> None:
    for policy in (RecoveryPolicy(), RecoveryPolicy(mode=PolicyMode.OBSERVE, elastic=RULES)):
        assert Sizes(policy, 8).without(8, 1) is None
        assert Sizes(policy, 4).rules is None


def test_a_policy_that_the_job_cannot_have_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"^elastic nnodes_min 9 is above the job's 8 nodes$"):
        Sizes(RecoveryPolicy(elastic=ElasticPolicy(nnodes_min=9)), 8)


def test_a_job_without_a_spare_goes_on_smaller_and_grows_when_the_machine_is_back() -> None:
    policy = elastic("replace-always", RULES)
    fault = one(GPU, Need.RESTART, 100.0, repair_s=2 * DAY_S)
    done = run(policy, [fault], spares=0)
    assert (done.short_of_spares, done.shrunk, done.grown) == (1, 1, 1)
    assert done.phases["wait"] == pytest.approx(60.0)
    assert done.phases["smaller"] == pytest.approx(2 * DAY_S / 4, rel=0.01)  # one node of four was away
    assert done.phases["lost_work"] < 31  # the planned stop loses nothing
    assert done.productive_s + sum(done.phases.values()) == pytest.approx(done.span_s)
    kept = run(elastic("replace-always", RULES.model_copy(update={"regrow": False})), [fault], spares=0)
    assert (kept.shrunk, kept.grown) == (1, 0)
    assert kept.phases["smaller"] > 10 * done.phases["smaller"]


def test_below_the_least_size_the_job_waits() -> None:
    faults = [one(GPU, Need.RESTART, 100.0 + 1_000 * index, index, repair_s=DAY_S) for index in range(3)]
    done = run(elastic("replace-always", RULES), faults, spares=0)
    assert done.shrunk == 2
    assert done.phases["wait"] == pytest.approx(DAY_S, rel=0.05)


def test_a_node_on_probation_is_no_reason_to_stop_a_gang() -> None:
    fault = one(GPU, Need.RESTART, 100.0, draws=(0.1,) * 16)
    done = run(elastic("phalanx", RULES), [fault], spares=0)
    assert (done.shrunk, done.grown) == (1, 1)
    assert done.phases["smaller"] == pytest.approx(7 * DAY_S / 4, rel=0.02)


@pytest.mark.parametrize("name", ["phalanx", "replace-always"])
def test_every_second_of_a_gang_that_changes_its_size_is_accounted_for_once(name: str) -> None:
    trace = rate_trace(60.0, machines=64, days=60, seed=3, shares=LightShares())
    policy = elastic(name, ElasticPolicy(nnodes_min=32, replica_nodes=4))
    done = simulate(policy, costs_for(), Cluster(nodes=64, spares=0, days=60), trace)
    assert done.shrunk > 2
    assert done.productive_s + sum(done.phases.values()) == pytest.approx(done.span_s, rel=1e-6)
    waits = replace(policy, recovery=default_recovery())
    assert simulate(waits, costs_for(), Cluster(nodes=64, spares=0, days=60), trace).ettr < done.ettr

"""Which gang works on a node."""

from datetime import UTC, datetime

from fault_contracts.payload import Reason
from fault_contracts.recovery import GangFormed, JobEnded, JobOutcome
from fault_contracts.step_times import RankStepTimes, StepTimesReported
from health_ingest.domain.gangs_of_nodes import COHORT_NODES, Cohort, GangsOfNodes

AT = datetime(2026, 3, 14, tzinfo=UTC)


def formed(job_id: str, nodes: int) -> GangFormed:
    names = tuple(f"n{place}" for place in range(nodes))
    return GangFormed(job_id=job_id, topology_version=1, nodes=names, world_size=8 * nodes, formed_at=AT)


def stepped(node_id: str, first_rank: int, job_id: str = "job") -> StepTimesReported:
    ranks = tuple(
        RankStepTimes(rank=first_rank + n, local_rank=n, count=1, median_s=1.0, spread_s=0.0) for n in range(8)
    )
    return StepTimesReported(
        node_id=node_id,
        instance_id="i",
        job_id=job_id,
        topology_version=1,
        world_size=1_024,
        window=0,
        first_step=0,
        last_step=1,
        duration_s=1.0,
        ranks=ranks,
        reported_at=AT,
    )


def test_a_large_gang_is_cut_into_cohorts_the_same_way_by_both_messages() -> None:
    by_forming, by_steps = GangsOfNodes(), GangsOfNodes()
    by_forming.formed(formed("job", 40))
    for place in range(40):
        by_steps.stepped(stepped(f"n{place}", 8 * place))
    for place in range(40):
        expected = Cohort(job_id="job", part=place // COHORT_NODES)
        assert by_forming.of(f"n{place}") == expected == by_steps.of(f"n{place}")


def test_a_node_belongs_to_the_job_that_was_heard_of_last_and_to_none_after_its_end() -> None:
    gangs = GangsOfNodes()
    gangs.formed(formed("old", 2))
    gangs.stepped(stepped("n0", 0, "new"))
    assert gangs.of("n0") == Cohort(job_id="new", part=0)
    gangs.ended(
        JobEnded(
            job_id="old",
            outcome=JobOutcome.SUCCEEDED,
            topology_version=1,
            restarts=0,
            reason=Reason(rule_id="r", sentence="s"),
            ended_at=AT,
        )
    )
    assert gangs.of("n1") is None
    assert gangs.of("n0") is not None

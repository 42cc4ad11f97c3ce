"""A story of a gang that may change its size."""

from notice_story import NoticeStory

from fault_contracts.agent import RankLabelsReported
from fault_contracts.policy import ElasticPolicy, RecoveryPolicy
from recovery_planner.domain.rank_labels import RanksLabelled


def elastic(nnodes: int, *, nproc: int = 1, **rules: object) -> NoticeStory:
    """A job of so many nodes, not started yet."""
    policy = ElasticPolicy.model_validate({"nnodes_min": 1, "wait_s": 30, "snooze_s": 600, **rules})
    return NoticeStory(nnodes=nnodes, nproc=nproc, recovery=RecoveryPolicy(elastic=policy))


def running(nnodes: int, **rules: object) -> NoticeStory:
    """Nodes a, b, c, ... train and have saved step 10."""
    story = elastic(nnodes, **rules)  # type: ignore[arg-type]
    story.run(*"abcdefgh"[:nnodes])
    story.confirm(10, *range(story.gang.table.world_size))
    return story


def lose(story: NoticeStory, *nodes: str) -> None:
    """Nodes vanish, and the others stop."""
    for node in nodes:
        story.lose(node)
    story.stop_all()
    story.classify(fault_id=f"fault-{story.gang.table.topology_version}")


def shrunk(story: NoticeStory, *nodes: str) -> NoticeStory:
    """Nodes vanish, nobody comes, and the gang runs without."""
    lose(story, *nodes)
    story.wait(story.gang.spec.policy.elastic.wait_s)  # type: ignore[union-attr]
    story.tick()
    story.start_all()
    return story


def label(story: NoticeStory, *values: str) -> None:
    """Ranks tell their data parallel index."""
    reports = tuple(
        RankLabelsReported(
            node_id="any", job_id="job-1", topology_version=story.gang.table.topology_version, rank=rank,
            labels={"dp": value},
        )
        for rank, value in enumerate(values)
    )  # fmt: skip
    story.feed(RanksLabelled(reports=reports))

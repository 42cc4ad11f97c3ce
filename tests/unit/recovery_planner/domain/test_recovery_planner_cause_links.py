"""A node keeps its place when what it shares with others is broken, and that is told once."""

from planner_story import Story

from fault_contracts.faults import Action, Attribution
from fault_contracts.recovery import CauseLinked, IncidentClosed, RecoveryPlanned
from recovery_planner.domain.shared_causes import Family, Sighting


def elsewhere(story: Story, *, cause: str = "nic_fault", family: Family = Family.NETWORK, node: str = "z") -> Sighting:
    return Sighting(
        at=story.now, node_id=node, family=family, cause=cause, evidence_id=f"fault of {node}", job_id="job-2",
        incident_id="incident of job-2",
    )  # fmt: skip


def broken(*, cause: str = "nic_fault") -> Story:
    story = Story().run("a", "b", "c")
    story.sightings.append(elsewhere(story))
    story.die("b", 2)
    story.stop_all()
    story.classify(Action.REPLACE_NODE, attribution=Attribution.HARDWARE, node="b", cause=cause)
    return story


def test_a_shared_cause_costs_no_node_and_is_told_once() -> None:
    story = broken()
    assert story.seats() == ["a", "b"]
    told = story.last(CauseLinked)
    assert (told.family, told.cause, told.jobs) == ("network", "nic_fault", ("job-1", "job-2"))
    assert told.nodes == ("b", "z")
    assert story.last(RecoveryPlanned).moves == ()
    assert any(reason.rule_id == "cause.linked" for reason in story.last(RecoveryPlanned).reasons)
    story.start_all()
    account = story.last(IncidentClosed).account
    assert account is not None
    assert account.linked_to == ("incident of job-2",)
    assert len(story.all(CauseLinked)) == 1


def test_a_cause_of_its_own_costs_the_node_whatever_befalls_others() -> None:
    story = broken(cause="gpu_memory")
    assert story.seats() == ["a", "c"]
    assert story.all(CauseLinked) == []


def test_a_late_verdict_on_something_shared_does_not_take_the_node_at_the_next_stop() -> None:
    story = Story().run("a", "b", "c")
    story.sightings.append(elsewhere(story))
    story.die("b", 2)
    story.stop_all()
    story.wait_for_deadline()
    story.classify(
        Action.REPLACE_NODE, attribution=Attribution.HARDWARE, node="b", cause="nic_fault",
        version=story.gang.incident.fault_version if story.gang.incident else None,
    )  # fmt: skip
    assert not story.gang.members["b"].blamed
    assert len(story.all(CauseLinked)) == 1


def test_a_wait_for_a_node_tells_it_once() -> None:
    story = Story().run("a", "b")
    story.sightings.append(elsewhere(story))
    story.lose("b")
    story.stop_all()
    story.classify(Action.REPLACE_NODE, attribution=Attribution.HARDWARE, node="b", cause="nic_fault")
    story.wait(5)
    story.beat("a")
    story.report("d")
    assert len(story.all(CauseLinked)) == 1

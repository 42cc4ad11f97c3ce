"""When faults of several nodes are one, and when they only happen at the same time."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fault_contracts.faults import Attribution
from recovery_planner.domain.shared_causes import AT_ONCE, SHARED_BY, Family, Link, Sighting, family_of, linked

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ROOT = Path(__file__).parents[4]


def seen(
    node: str,
    job: str = "",
    *,
    family: Family = Family.NETWORK,
    cause: str = "nic_fault",
    ago_s: float = 0.0,
    **labels: str,
) -> Sighting:
    return Sighting(
        at=NOON - timedelta(seconds=ago_s),
        node_id=node,
        family=family,
        cause=cause,
        evidence_id=f"{node}/{job}/{cause}",
        job_id=job,
        incident_id=f"incident of {job}" if job else "",
        labels=tuple(sorted(labels.items())),
    )


def link(own: Sighting, *others: Sighting) -> Link:
    found = linked(own, others)
    assert found is not None
    return found


def test_two_jobs_on_two_nodes_or_three_nodes_have_one_cause() -> None:
    own = seen("a", "j1")
    assert linked(own, [own]) is None
    assert linked(own, [seen("b")]) is None, "two nodes of one job may both be bad"
    found = link(own, seen("b", "j2"))
    assert (found.jobs, found.nodes) == (("j1", "j2"), ("a", "b"))
    assert found.incidents == ("incident of j1", "incident of j2")
    assert link(own, seen("b"), seen("c")).nodes == ("a", "b", "c")


def test_two_jobs_on_one_node_speak_of_that_node() -> None:
    assert linked(seen("a", "j1"), [seen("a", "j2"), seen("a", "j3")]) is None


def test_another_family_or_another_time_is_another_cause() -> None:
    own = seen("a", "j1")
    assert linked(own, [seen("b", "j2", family=Family.POWER)]) is None
    assert linked(own, [seen("b", "j2", ago_s=AT_ONCE.total_seconds() + 1)]) is None
    assert linked(own, [seen("b", "j2", ago_s=AT_ONCE.total_seconds() - 1)]) is not None


def test_a_switch_is_shared_by_those_behind_it_alone() -> None:
    own = seen("a", "j1", switch="s1", rack="r1")
    assert link(own, seen("b", "j2", switch="s1", rack="r2")).place == "switch=s1"
    assert linked(own, [seen("b", "j2", switch="s2", rack="r2")]) is None, "they stand apart"
    assert link(own, seen("b", "j2")).place == "", "where it stands is not told"


def test_a_larger_place_is_asked_when_the_nearest_has_too_few() -> None:
    own = seen("a", "j1", switch="s1", rack="r1")
    others = [seen("b", switch="s1", rack="r1"), seen("c", switch="s2", rack="r1"), seen("d", switch="s3", rack="r1")]
    found = link(own, *others)
    assert (found.place, found.nodes) == ("rack=r1", ("a", "b", "c", "d"))


def test_storage_is_far_from_all_of_them() -> None:
    own = seen("a", "j1", family=Family.STORAGE, rack="r1")
    assert link(own, seen("b", "j2", family=Family.STORAGE, rack="r9")).place == ""


def test_of_an_unnamed_part_of_the_platform_only_the_same_cause_counts() -> None:
    own = seen("a", "j1", family=Family.PLATFORM, cause="host_fault")
    assert linked(own, [seen("b", "j2", family=Family.PLATFORM, cause="machine_stood_still")]) is None
    assert linked(own, [seen("b", "j2", family=Family.PLATFORM, cause="host_fault")]) is not None


@pytest.mark.parametrize(
    ("cause", "attribution", "costs_node", "family"),
    [
        ("nic_fault", Attribution.HARDWARE, True, Family.NETWORK),
        ("gpu_memory", Attribution.HARDWARE, True, None),
        ("gpu_ecc_uncorrectable", Attribution.HARDWARE, True, None),
        ("nic_fault", Attribution.USER, True, None),
        ("host_fault", Attribution.PLATFORM, True, Family.PLATFORM),
        ("process_killed", Attribution.PLATFORM, False, None),
        ("storage_unavailable", Attribution.PLATFORM, False, Family.STORAGE),
    ],
)
def test_what_can_be_shared(cause: str, attribution: Attribution, costs_node: bool, family: Family | None) -> None:
    assert family_of(cause, attribution, costs_node=costs_node) is family


def test_every_word_is_one_of_the_judge_or_of_the_ingest() -> None:
    rules = ROOT / "libs/fault-attribution/src/fault_attribution/rules/causes"
    causes = {
        word for path in rules.glob("*.yaml") for word in re.findall(r"^    cause: (\S+)", path.read_text(), re.M)
    }
    policies = ROOT / "services/health-ingest/src/health_ingest/policies/checks.yaml"
    checks = set(re.findall(r"^- check: (\S+)", policies.read_text(), re.M))
    assert set(SHARED_BY) <= causes | checks, sorted(set(SHARED_BY) - causes - checks)

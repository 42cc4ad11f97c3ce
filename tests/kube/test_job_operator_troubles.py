"""The operator when something breaks: itself between any two calls, the API server, rights, other people's hands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from job_rig import GROUP, Killed, Rig, job_body, play
from kube_call import Call, Rule, Trouble

from service_kit.testing.virtual_clock import run_virtual


async def _life(rig: Rig) -> None:
    """A job with a failed pod, an evicted one, a condemned node, a suspension and a good end."""
    rig.submit(spares=1, deadlines={"backoffSeconds": 5}, cleanup="All")
    await rig.all_run(3)
    rig.player.end(rig.pod("llm-1"), 137)
    await rig.until(lambda: len(rig.running()) == 2)
    await rig.all_run(3)
    bad = rig.pod("llm-0")
    rig.gang("running", condemned=frozenset({bad["spec"]["nodeName"]}))
    await rig.until(lambda: rig.pod("llm-0")["metadata"]["uid"] != bad["metadata"]["uid"])
    await rig.all_run(3)
    rig.edit({"suspend": True})
    await rig.until(lambda: rig.state() == "Suspended" and not rig.pods())
    rig.edit({"suspend": False})
    await rig.all_run(3)
    await rig.clock.sleep(2)
    for pod in rig.pods():
        rig.player.end(pod, 0)
    await rig.until(lambda: rig.state() == "Succeeded" and not rig.pods(), 120)


def _outcome(rig: Rig) -> dict[str, Any]:
    """What must be the same however often the operator was killed."""
    return {
        "podFailures": rig.status()["podFailures"],
        "avoided": [each["name"] for each in rig.status()["avoidedNodes"]],
        "conditions": {c["type"]: (c["status"], c["reason"]) for c in rig.status()["conditions"]},
        "events": sorted(
            (each["reason"], each["message"]) for each in rig.events() if each["reason"] not in ("AllPodsRunning",)
        ),
    }


def _with_kill(at: int, *, after: bool) -> tuple[Rig, int]:
    """Live through it with an operator that dies at its `at`-th write, before or after it is done."""

    async def main() -> tuple[Rig, int]:
        rig = Rig(nodes=5)
        count = 0

        def die(call: Call) -> None:
            nonlocal count
            if call.manager == "phalanx-operator" and call.writes:
                count += 1
                if count == at:
                    raise Killed

        if after:
            rig.cluster.after_call = die
        else:
            rig.cluster.before_call = die
        rig.start()

        async def resurrect() -> None:
            while True:
                await asyncio.sleep(0.25)
                if rig.operator is not None and rig.operator.done():
                    assert isinstance(_root(rig.operator.exception()), Killed)
                    rig.start_operator()

        watcher = asyncio.create_task(resurrect())
        try:
            await _life(rig)
        finally:
            watcher.cancel()
            await rig.stop()
        return rig, count

    return run_virtual(main())


def _root(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@pytest.fixture(scope="module")
def untouched() -> tuple[dict[str, Any], int]:
    rig, count = _with_kill(0, after=False)
    return _outcome(rig), count


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_operator_that_is_killed_at_any_write_goes_on_where_it_was(
    untouched: tuple[dict[str, Any], int], after: bool
) -> None:
    outcome, count = untouched
    assert count > 25, "the story has become too short to say much"
    # After a write that was done the next operator finds it done: every third place says as much.
    for at in range(1, count + 1, 3 if after else 1):
        rig, _ = _with_kill(at, after=after)
        assert _outcome(rig) == outcome, f"killed at write {at} of {count}"
        doubles = [p["metadata"]["name"] for p in rig.pods()]
        assert len(doubles) == len(set(doubles))


def test_a_watch_that_expired_is_begun_anew() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        before = rig.pod("llm-1")["metadata"]["uid"]
        listed = sum(call.verb == "list" for call in rig.cluster.calls)
        rig.cluster.delete("pods", "llm-1", namespace="default")
        rig.cluster.expire()  # before anybody was told
        await rig.until(lambda: len(rig.running()) == 2 and rig.pod("llm-1")["metadata"]["uid"] != before)
        assert sum(call.verb == "list" for call in rig.cluster.calls) > listed, "the watch never expired"

    play(story)


def test_an_api_server_that_is_away_for_a_minute_is_waited_for() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        away = Trouble(status=0, times=None)
        rig.cluster.troubles.append(away)
        before = len(rig.cluster.calls)
        rig.cluster.delete("pods", "llm-1", namespace="default")
        rig.submit("other", nnodes=1)
        await rig.clock.sleep(60)
        assert len(rig.cluster.calls) - before < 60, "asked again and again"
        away.times = 0
        await rig.until(lambda: len(rig.running()) == 3, 120)

    play(story)


def test_a_write_that_was_done_but_not_answered_is_not_done_twice() -> None:
    async def story(rig: Rig) -> None:
        rig.cluster.troubles.append(Trouble(status=0, after=True, times=6, writes_only=True))
        rig.submit()
        await rig.all_run(2, 120)
        assert rig.state() in ("Starting", "Running")
        assert rig.status()["tries"] == 1

    play(story)


def test_throttling_is_obeyed() -> None:
    async def story(rig: Rig) -> None:
        rig.cluster.troubles.append(Trouble(status=429, times=3, verb="create", resource="pods", retry_after_s=7))
        rig.submit()
        await rig.all_run(2, 120)
        creates = list(rig.writes("create", "pods"))
        assert len(creates) <= 6

    play(story)


def test_a_stale_status_is_read_again() -> None:
    async def story(rig: Rig) -> None:
        rig.cluster.troubles.append(Trouble(status=409, times=3, verb="apply", resource="trainingjobs/status"))
        rig.submit()
        await rig.all_run(2, 120)
        await rig.until(lambda: rig.condition("PodsReady").get("status") == "True")

    play(story)


def test_a_name_that_is_somebody_elses_is_one_condition_and_one_event() -> None:
    async def story(rig: Rig) -> None:
        pod = {"metadata": {"name": "llm-1"}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
        rig.cluster.create("pods", pod, namespace="default")
        rig.submit()
        await rig.until(lambda: rig.condition("Stalled").get("status") == "True")
        assert rig.condition("Stalled")["reason"] == "NameConflict"
        assert "llm-1" in rig.condition("Stalled")["message"]
        await rig.clock.sleep(600)
        assert len(rig.events("NameConflict")) == 1
        assert len(rig.writes("create", "pods")) < 60, "a hot loop"
        assert rig.pod("llm-1")["spec"]["containers"][0]["name"] == "web", "not ours, not touched"
        rig.cluster.delete("pods", "llm-1", namespace="default", grace_s=0)
        await rig.until(lambda: rig.condition("Stalled")["status"] == "False", 130)
        await rig.all_run(2)

    play(story)


def test_a_pod_with_our_labels_that_belongs_to_nobody_is_adopted() -> None:
    async def story(rig: Rig) -> None:
        pod = {
            "metadata": {"name": "llm-1", "labels": {"phalanx.dev/job": "llm", "phalanx.dev/index": "1"}},
            "spec": {"containers": [{"name": "trainer", "image": "registry/llm:1"}]},
        }
        there = rig.cluster.create("pods", pod, namespace="default")
        job = rig.submit()
        await rig.all_run(2, 120)
        adopted = rig.pod("llm-1")
        assert adopted["metadata"]["uid"] == there["metadata"]["uid"]
        assert adopted["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        assert len(rig.events("PodAdopted")) <= 1

    play(story)


def test_a_users_edit_of_the_service_is_left_alone_and_said() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        rig.cluster.patch("services", "llm", {"spec": {"publishNotReadyAddresses": False}}, namespace="default")
        rig.cluster.delete("pods", "llm-1", namespace="default")
        await rig.until(lambda: rig.condition("Stalled").get("reason") == "FieldConflict")
        await rig.all_run(2)
        assert rig.cluster.get("services", "llm", namespace="default")["spec"]["publishNotReadyAddresses"] is False
        assert len(rig.events("FieldConflict")) == 1

    play(story)


def test_missing_rights_are_said_once_and_asked_again_slowly() -> None:
    async def story(rig: Rig) -> None:
        everything = Rule(groups=("*",), resources=("trainingjobs", "trainingjobs/status", "events"), verbs=("*",))
        reads = Rule(groups=("*",), resources=("*",), verbs=("get", "list", "watch"))
        rig.cluster.rules["operator"] = [everything, reads]
        rig.submit()
        await rig.until(lambda: rig.condition("Stalled").get("status") == "True")
        assert rig.condition("Stalled")["reason"] == "Forbidden"
        before = len(rig.writes())
        await rig.clock.sleep(600)
        assert len(rig.events("Forbidden")) == 1
        assert len(rig.writes()) - before < 60, "a hot loop"
        rig.cluster.rules["operator"].append(Rule(groups=("*",), resources=("*",), verbs=("*",)))
        await rig.all_run(2, 200)
        await rig.until(lambda: rig.condition("Stalled")["status"] == "False")

    play(story, user="operator")


def test_a_namespace_that_goes_away_is_one_condition() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(suspend=True)
        await rig.until(lambda: rig.state() == "Suspended")
        rig.cluster.delete("namespaces", "default")
        rig.edit({"suspend": False})
        await rig.until(lambda: rig.condition("Stalled").get("reason") == "NamespaceTerminating")
        before = len(rig.writes())
        await rig.clock.sleep(300)
        assert len(rig.writes()) - before < 40, "a hot loop"

    play(story)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {"template": {"spec": {"containers": [{"name": "a", "command": ["python", "train.py"]}]}}},
            "containers[0].command",
        ),
        ({"policy": {"restarts": 3}}, "spec.policy: unknown field restarts"),
        ({"nnodes": 3, "elastic": {"minNodes": 4}}, "spec.elastic.minNodes"),
        ({"nprocPerNode": "gpu"}, "resources.limits"),
    ],
)
def test_a_spec_that_cannot_be_done_is_named_by_field(spec: dict[str, Any], field: str) -> None:
    async def story(rig: Rig) -> None:
        rig.submit(**spec)
        await rig.until(lambda: rig.condition("Stalled").get("reason") == "SpecInvalid")
        assert field in rig.condition("Stalled")["message"]
        before = len(rig.writes())
        await rig.clock.sleep(900)
        assert not rig.pods()
        assert len(rig.events("SpecInvalid")) == 1
        assert len(rig.writes()) == before
        rig.edit({**job_body()["spec"], "elastic": None, "policy": None, "nprocPerNode": 1})
        await rig.all_run(rig.job()["spec"]["nnodes"])  # type: ignore[index]
        await rig.until(lambda: rig.condition("Stalled")["status"] == "False")

    play(story)


def test_deletion_while_the_job_recovers_leaves_nothing() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(spares=1)
        await rig.all_run(3)
        rig.gang("stopping", incident="rank 3 died")
        rig.player.end(rig.pod("llm-1"), 137)
        rig.cluster.delete("trainingjobs", "llm", namespace="default", group=GROUP)
        await rig.until(lambda: not rig.pods())
        await rig.clock.sleep(120)
        assert not rig.pods()
        assert rig.cluster.find("configmaps", "llm-phalanx", namespace="default") is None

    play(story)


def test_five_hundred_nodes_come_up_and_go_down() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(nnodes=500, deadlines={"admissionSeconds": 3000})
        await rig.all_run(500, 120)
        assert len(rig.writes("create", "pods")) == 500
        await rig.until(lambda: rig.condition("PodsReady").get("status") == "True")
        assert rig.status()["ready"] == "500/500"
        statuses = list(rig.writes("apply", "trainingjobs"))
        assert len(statuses) < 100, "a status for every pod"

    play(story, nodes=500)

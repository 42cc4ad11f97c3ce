"""The operator of TrainingJobs through the life of a job: what users do, and what clusters do."""

from __future__ import annotations

from job_rig import Rig, play


def test_a_job_gets_its_pods_its_service_and_its_end() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(nnodes=2, spares=1)
        await rig.all_run(3)
        assert [pod["metadata"]["name"] for pod in rig.pods()] == ["llm-0", "llm-1", "llm-2"]
        assert len({pod["spec"]["nodeName"] for pod in rig.pods()}) == 3
        service = rig.cluster.get("services", "llm", namespace="default")
        assert service["spec"]["clusterIP"] == "None"
        await rig.until(lambda: rig.condition("PodsReady").get("status") == "True")
        rig.gang("running")
        await rig.until(lambda: rig.state() == "Running")
        assert rig.status()["ready"] == "2/2"
        for pod in rig.pods():
            rig.player.end(pod, 0)
        await rig.until(lambda: rig.state() == "Succeeded")
        assert rig.condition("Succeeded")["reason"] == "JobSucceeded"
        assert rig.condition("Running")["status"] == "False"
        assert [event["reason"] for event in rig.events()] == ["AllPodsRunning", "JobSucceeded"]
        await rig.clock.sleep(300)
        assert len(rig.pods()) == 3, "logs stay with cleanup Running"

    play(story)


def test_deleting_the_job_takes_all_that_it_was_made_of() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        rig.cluster.delete("trainingjobs", "llm", namespace="default", group="phalanx.dev")
        await rig.until(lambda: not rig.pods())
        assert rig.cluster.find("services", "llm", namespace="default") is None
        assert rig.cluster.find("configmaps", "llm-phalanx", namespace="default") is None

    play(story)


def test_a_pod_that_somebody_deletes_is_made_again_and_the_others_stay() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        kept = rig.pod("llm-0")["metadata"]["uid"]
        gone = rig.pod("llm-1")["metadata"]["uid"]
        rig.cluster.delete("pods", "llm-1", namespace="default")
        await rig.until(lambda: any(p["metadata"]["uid"] not in (kept, gone) for p in rig.running()))
        assert rig.pod("llm-0")["metadata"]["uid"] == kept
        assert rig.status()["podFailures"] == 0, "a deletion is nobody's failure"

    play(story)


def test_an_evicted_pod_is_replaced_without_being_counted() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        before = rig.pod("llm-0")["metadata"]["uid"]
        rig.cluster.patch(
            "pods",
            "llm-0",
            {"status": {"phase": "Failed", "reason": "Evicted"}},
            namespace="default",
            subresource="status",
        )
        await rig.until(lambda: len(rig.running()) == 2 and rig.pod("llm-0")["metadata"]["uid"] != before)
        assert rig.status()["podFailures"] == 0
        assert len(rig.events("PodDisrupted")) == 1

    play(story)


def test_launchers_that_die_are_replaced_ever_more_slowly_and_then_the_job_fails() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(podFailuresMax=2, deadlines={"backoffSeconds": 10})
        made_at = []
        for _ in range(3):
            await rig.until(lambda: len(rig.running()) == 2, 200)
            made_at.append(rig.clock.monotonic_s())
            rig.player.end(rig.pod("llm-1"), 137)
            await rig.until(lambda: len(rig.running()) == 1)
        await rig.until(lambda: rig.state() == "Failed")
        assert rig.condition("Failed")["reason"] == "PodFailures"
        assert "137" in rig.condition("Failed")["message"]
        first, second = made_at[1] - made_at[0], made_at[2] - made_at[1]
        assert first >= 10, first
        assert second >= 20, second
        await rig.until(lambda: not rig.running())

    play(story)


def test_exit_code_one_ends_the_job_and_the_record_says_why() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        await rig.clock.sleep(1)
        rig.gang("ended", outcome="failed_user", ended_reason="ZeroDivisionError in train.py", ended_at=rig.clock.now())
        for pod in rig.pods():
            rig.player.end(pod, 1)
        await rig.until(lambda: rig.state() == "Failed")
        failed = rig.condition("Failed")
        assert (failed["reason"], failed["message"]) == ("UserFault", "ZeroDivisionError in train.py")
        assert rig.status()["podFailures"] == 0
        await rig.clock.sleep(100)
        assert {pod["status"]["phase"] for pod in rig.pods()} == {"Failed"}, "nothing is started again"

    play(story)


def test_a_launcher_that_crashes_with_one_while_the_job_goes_on_is_replaced() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        rig.gang("waiting", incident="the agent of n001 left")
        before = rig.pod("llm-1")["metadata"]["uid"]
        rig.player.end(rig.pod("llm-1"), 1)
        await rig.until(lambda: len(rig.running()) == 2 and rig.pod("llm-1")["metadata"]["uid"] != before, 120)
        assert rig.state() == "Recovering"
        assert rig.status()["podFailures"] == 1

    play(story)


def test_a_lost_node_gives_its_pod_back_once_the_planner_has_given_it_up() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(deadlines={"unreachableSeconds": 40})
        await rig.all_run(2)
        rig.gang("running")
        lost = rig.pod("llm-1")
        rig.player.lose_node(lost["spec"]["nodeName"])
        lost_s = rig.clock.monotonic_s()
        await rig.clock.sleep(120)
        assert rig.pod("llm-1")["metadata"]["uid"] == lost["metadata"]["uid"], "nobody knows that its ranks are fenced"
        rig.gang("waiting", incident="node lost", lost=frozenset({lost["spec"]["nodeName"]}), restarts=1)
        await rig.until(lambda: rig.pod("llm-1")["metadata"]["uid"] != lost["metadata"]["uid"], 30)
        await rig.all_run(2)
        assert rig.pod("llm-1")["spec"]["nodeName"] != lost["spec"]["nodeName"]
        assert rig.clock.monotonic_s() - lost_s >= 40
        assert len(rig.events("NodeLost")) == 1
        assert rig.status()["restarts"] == 1

    play(story)


def test_a_pod_whose_node_was_deleted_does_not_wait_for_the_planner() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        lost = rig.pod("llm-1")
        node = lost["spec"]["nodeName"]
        rig.player.lose_node(node)
        rig.cluster.delete("nodes", node)
        await rig.until(
            lambda: len(rig.running()) == 2 and rig.pod("llm-1")["metadata"]["uid"] != lost["metadata"]["uid"], 120
        )

    play(story)


def test_blamed_hardware_loses_its_pod_when_the_ranks_have_been_stopped_and_is_avoided() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(spares=1)
        await rig.all_run(3)
        bad = rig.pod("llm-0")
        node = bad["spec"]["nodeName"]
        rig.gang("stopping", incident="xid 79", condemned=frozenset({node}))
        await rig.clock.sleep(60)
        assert rig.pod("llm-0")["metadata"]["uid"] == bad["metadata"]["uid"], "its launcher still has ranks to stop"
        rig.gang(
            "running", condemned=frozenset({node}), topology_version=2, fault="hardware/xid_79: GPU fell off the bus"
        )
        await rig.until(lambda: rig.pod("llm-0")["metadata"]["uid"] != bad["metadata"]["uid"])
        await rig.all_run(3)
        assert rig.pod("llm-0")["spec"]["nodeName"] != node
        assert [each["name"] for each in rig.status()["avoidedNodes"]] == [node]
        assert rig.status()["lastFault"].startswith("hardware/xid_79")

    play(story)


def test_suspending_gives_all_back_and_resuming_asks_again() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(suspend=True)
        await rig.until(lambda: rig.state() == "Suspended")
        await rig.clock.sleep(60)
        assert not rig.pods(), "a queue has not admitted it"
        rig.edit({"suspend": False})
        await rig.all_run(2)
        await rig.until(lambda: rig.condition("Suspended")["status"] == "False")
        assert rig.condition("Suspended")["reason"] == "Resumed"
        rig.edit({"suspend": True})
        await rig.until(lambda: rig.state() == "Suspended" and not rig.pods())
        assert rig.status()["podFailures"] == 0
        # The planner waited for nodes and gave the run up meanwhile: that is no end of the job.
        rig.gang("ended", outcome="failed_no_capacity", ended_reason="no node", ended_at=rig.clock.now())
        await rig.clock.sleep(10)
        rig.edit({"suspend": False})
        await rig.all_run(2)
        await rig.clock.sleep(40)
        assert rig.state() == "Running"

    play(story)


def test_too_few_nodes_are_given_back_and_asked_for_again_later() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(nnodes=3, deadlines={"admissionSeconds": 60, "backoffSeconds": 20})
        await rig.until(lambda: len(rig.running()) == 2)
        await rig.until(lambda: rig.state() == "BackingOff", 90)
        assert "2 of 3" in rig.condition("PodsReady")["message"]
        assert "0 nodes are available" in rig.condition("PodsReady")["message"]
        await rig.until(lambda: not rig.pods(), 15)
        rig.player.add_node("n009")
        await rig.all_run(3, 60)
        assert rig.status()["tries"] == 2
        assert len(rig.events("AdmissionTimedOut")) == 1

    play(story, nodes=2)


def test_tries_have_an_end() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(nnodes=3, deadlines={"admissionSeconds": 30, "backoffSeconds": 5, "triesMax": 3})
        await rig.until(lambda: rig.state() == "Failed", 300)
        assert rig.condition("Failed")["reason"] == "AdmissionTimedOut"
        assert rig.status()["tries"] == 3
        await rig.until(lambda: not rig.running())

    play(story, nodes=2)


def test_no_capacity_is_another_try_and_not_the_end() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(deadlines={"backoffSeconds": 30})
        await rig.all_run(2)
        before = {pod["metadata"]["uid"] for pod in rig.pods()}
        for pod in rig.pods():
            rig.player.end(pod, 75)
        await rig.until(lambda: rig.state() == "BackingOff")
        assert rig.condition("PodsReady")["reason"] == "NoCapacity"
        await rig.until(lambda: len(rig.running()) == 2 and not before & {p["metadata"]["uid"] for p in rig.running()})
        assert rig.status()["tries"] == 2
        assert len(rig.events("NoCapacity")) == 1

    play(story)


def test_a_launcher_that_refuses_to_begin_ends_the_job_at_once() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        rig.player.end(rig.pod("llm-0"), 78)
        await rig.until(lambda: rig.state() == "Failed")
        assert rig.condition("Failed")["reason"] == "LauncherRefused"

    play(story)


def test_an_ended_job_expires_and_a_running_one_has_its_deadline() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(deadlines={"activeSeconds": 100}, ttlSecondsAfterFinished=500, cleanup="All")
        await rig.all_run(2)
        await rig.until(lambda: rig.state() == "Failed", 120)
        assert rig.condition("Failed")["reason"] == "DeadlineExceeded"
        await rig.until(lambda: not rig.pods(), 30)
        assert rig.job() is not None
        await rig.until(lambda: rig.job() is None, 520)
        assert len(rig.events("Expired")) == 1

    play(story)


def test_elastic_bounds_reach_the_launcher_and_a_smaller_gang_is_said() -> None:
    async def story(rig: Rig) -> None:
        rig.submit(nnodes=3, elastic={"minNodes": 1}, policy={"restarts_max": 5})
        await rig.all_run(3)
        config = rig.cluster.get("configmaps", "llm-phalanx", namespace="default")
        assert '"nnodes_min": 1' in config["data"]["policy.yaml"]
        assert '"restarts_max": 5' in config["data"]["policy.yaml"]
        await rig.until(lambda: rig.condition("PodsReady").get("status") == "True")
        rig.gang("running", nnodes=2, topology_version=2)
        await rig.until(lambda: "2 of 3 nodes" in rig.condition("Running").get("message", ""))

    play(story)


def test_nothing_is_written_while_nothing_changes() -> None:
    async def story(rig: Rig) -> None:
        rig.submit()
        await rig.all_run(2)
        rig.gang("running", step=7)
        await rig.clock.sleep(60)
        before = len(rig.writes())
        await rig.clock.sleep(3_600)
        assert len(rig.writes()) == before

    play(story)

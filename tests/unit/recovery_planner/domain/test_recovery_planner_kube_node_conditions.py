"""Node conditions: one a family, stable words, the time of a transition is that of the status."""

from kube_node_cast import Machine, life, open_condition, standing

from fault_contracts.hardware import HeldDevice
from fault_contracts.health import Component, Tier
from fault_contracts.payload import Health
from fault_contracts.remediation import NodePhase
from recovery_planner.domain.kube_drain import pods_to_evict, stuck_words
from recovery_planner.domain.kube_node_conditions import Family, camel
from recovery_planner.domain.kube_node_seen import read_node
from recovery_planner.domain.kube_nodes import Known


def test_each_family_says_its_own() -> None:
    machine = Machine()
    gpu = open_condition("xid_79")
    nic = open_condition("nic_link_down", component=Component.NIC, tier=Tier.PROBLEM, ident="c2")
    disk = open_condition("foreign_disk_failure", component=Component.HOST, ident="c3")
    held = HeldDevice(device_id="GPU-1", reason="three strikes")
    machine.round(Known(standing=standing(gpu, nic, disk, fit=Health.BAD, held=(held,))))
    said = {each["type"]: (each["status"], each["reason"]) for each in machine.node["status"]["conditions"]}
    assert said == {
        Family.GPU: ("True", "Xid79"),
        Family.FABRIC: ("False", "ToleratedProblem"),
        Family.DRIVER: ("False", "NoProblem"),
        Family.HOST: ("True", "ForeignDiskFailure"),
        Family.DEVICE_HELD: ("True", "Quarantined"),
        Family.REMEDIATION: ("False", "Ok"),
    }
    assert machine.condition(Family.GPU)["message"] == "xid_79: xid_79 was seen"


def test_silence_is_unknown() -> None:
    machine = Machine()
    machine.round(Known(standing=standing(fit=Health.UNKNOWN)))
    assert machine.condition(Family.GPU)["status"] == "Unknown"


def test_what_did_not_change_is_not_written_and_the_time_moves_with_the_status_alone() -> None:
    machine = Machine()
    first = open_condition("xid_79")
    machine.round(Known(standing=standing(first)))
    began = machine.condition(Family.GPU)["lastTransitionTime"]
    machine.later(600)
    assert machine.round(Known(standing=standing(first))).conditions == ()
    machine.round(Known(standing=standing(first, open_condition("xid_48", ident="c0"))))
    assert machine.condition(Family.GPU)["lastTransitionTime"] == began
    machine.round(Known(standing=standing()))
    assert machine.condition(Family.GPU)["lastTransitionTime"] > began


def test_the_phase_is_the_reason_of_remediation() -> None:
    machine = Machine()
    machine.round(Known(life=life(NodePhase.VALIDATING)))
    said = machine.condition(Family.REMEDIATION)
    assert (said["status"], said["reason"]) == ("True", "Validating")
    machine.round(Known(life=life(NodePhase.PROBATION)))
    assert machine.condition(Family.REMEDIATION)["status"] == "False"


def test_reasons_are_what_kubernetes_takes() -> None:
    assert [camel(name) for name in ("gpu_row_remap_failure", "a-b c", "", "é")] == [
        "GpuRowRemapFailure", "ABC", "Unnamed", "Unnamed"
    ]  # fmt: skip


def test_a_node_with_nothing_in_it_is_read() -> None:
    seen = read_node({"metadata": {"name": "n"}})
    assert (seen.name, seen.taints, seen.created_at, seen.unschedulable) == ("n", (), None, False)


def test_what_belongs_to_the_machine_is_not_evicted() -> None:
    def pod(name: str, phase: str = "Running", **metadata: object) -> dict[str, object]:
        return {"metadata": {"namespace": "x", "name": name, "uid": name, **metadata}, "status": {"phase": phase}}

    pods = [
        pod("work"),
        pod("daemon", ownerReferences=[{"kind": "DaemonSet", "controller": True}]),
        pod("static", annotations={"kubernetes.io/config.mirror": "x"}),
        pod("leaving", deletionTimestamp="2030-01-01T00:00:00Z"),
        pod("over", phase="Succeeded"),
    ]
    assert [each.name for each in pods_to_evict(pods)] == ["work"]
    assert stuck_words({f"p{n}": "no" for n in range(7)}).endswith("and 2 more")

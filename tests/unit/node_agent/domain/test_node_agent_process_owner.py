"""Pods, containers and ranks, in the spellings of kubelet, containerd, CRI-O and docker."""

import pytest

from node_agent.domain.process_owner import ProcessOwner, owner_of

UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
CONTAINER = "ab" * 32
SLICE = f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice"


@pytest.mark.parametrize(
    "cgroup",
    [
        f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope",
        f"0::/kubepods/burstable/pod{UID}/{CONTAINER}",
        f"12:memory:/kubepods.slice/kubepods-besteffort.slice/{SLICE}/crio-{CONTAINER}.scope\n11:cpu:/",
    ],
)
def test_pod_and_container(cgroup: str) -> None:
    assert owner_of(cgroup) == ProcessOwner(pod_uid=UID, container_id=CONTAINER)


def test_docker_without_a_pod() -> None:
    assert owner_of(f"0::/system.slice/docker-{CONTAINER}.scope") == ProcessOwner(container_id=CONTAINER)


def test_a_process_of_no_container() -> None:
    assert owner_of("0::/user.slice/user-1000.slice/session-3.scope").attributes() == {}


def test_the_job_is_phalanx_s_before_torchrun_s() -> None:
    environ = b"PATH=/bin\0RANK=17\0TORCHELASTIC_RUN_ID=run\0PHALANX_JOB_ID=llama\0"
    assert owner_of("0::/", environ).attributes() == {"job_id": "llama", "rank": "17"}
    assert owner_of("0::/", b"TORCHELASTIC_RUN_ID=run\0RANK=x\0").attributes() == {"job_id": "run"}


def test_a_hostile_environment_is_bounded() -> None:
    owner = owner_of("", b"PHALANX_JOB_ID=" + b"j" * 10_000 + b"\0RANK=" + b"9" * 100)
    assert (len(owner.job_id), owner.rank) == (256, "")

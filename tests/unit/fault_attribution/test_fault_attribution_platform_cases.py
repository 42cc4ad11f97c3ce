"""The platform around a job, whole cases: several lines, as their emitters write them, and whose fault they mean.

The lines come from what emitters print in general; none of the labelled incidents is among them.
"""

from __future__ import annotations

import pytest

from fault_attribution.engine import Engine
from fault_attribution.loading.cause_yaml import parse_test_line
from fault_attribution.loading.rule_files import load_rules

_ENGINE = Engine(load_rules())

_CASES: dict[str, tuple[set[str], set[str], list[str]]] = {
    "old kernel, OOM killer of the machine": ({"user"}, {"dont_retry_notify_user"}, [
        "kmsg n1 @0 | [812331.1] Out of memory: Kill process 9911 (pt_main_thread) score 912 or sacrifice child",
        "kmsg n1 @0 | [812331.1] Killed process 9911 (pt_main_thread) total-vm:91234560kB, anon-rss:63012332kB",
        "worker-stderr n1 @2 | ./train.sh: line 14:  9911 Killed                  torchrun train.py",
        "exit n1 3 @2 | exitcode  : -9 (pid: 9911)",
    ]),
    "cgroup v2 kill seen by torchrun only on another node": ({"user"}, {"dont_retry_notify_user"}, [
        "kmsg n2 @0 | oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-1,mems_allowed=0-1,oom_memcg=/kubepods/burstable/pod1,task_memcg=/kubepods/burstable/pod1/c,task=python,pid=771,uid=0",
        "kmsg n2 @0 | Memory cgroup out of memory: Killed process 771 (python) total-vm:81234560kB, anon-rss:66012332kB",
        "worker-stderr n1 0 @5 | [rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275, remote process exited or there was a network error",
        "exit n1 0 @6 | exitcode: 1",
    ]),
    "loader worker killed, pod OOM": ({"user"}, {"dont_retry_notify_user"}, [
        "worker-stderr n1 0 @0 | RuntimeError: DataLoader worker (pid 2034) is killed by signal: Killed.",
        "k8s n1 @1 | Warning OOMKilling Memory cgroup out of memory: Killed process 2034 (pt_data_worker) total-vm:1kB",
    ]),
    "slurm step out of memory": ({"user"}, {"dont_retry_notify_user"}, [
        "exit n1 @0 | slurmstepd: error: Detected 2 oom_kill events in StepId=991.0. Some of the step tasks have been OOM Killed.",
        "exit n1 @0 | srun: error: n1: tasks 0-3: Out Of Memory",
        "exit n2 @1 | slurmstepd: error: *** STEP 991.0 ON n1 CANCELLED AT 2031-11-16T12:50:02 ***",
    ]),
    "slurm pre-emption": ({"platform"}, {"restart_job"}, [
        "worker-stderr n1 0 @0 | slurmstepd: error: *** JOB 991 ON n1 CANCELLED AT 2031-11-16T12:50:02 DUE TO PREEMPTION ***",
        "worker-stderr n1 0 @0 | Received Signals.SIGTERM death signal, shutting down workers",
        "exit n1 0 @30 | exit code 143",
    ]),
    "time limit": ({"user"}, {"dont_retry_notify_user"}, [
        "worker-stdout n1 0 @-5 | step 81233 | loss 1.91 | 3.1 s/it",
        "worker-stderr n1 @0 | slurmstepd: error: *** JOB 991 ON n1 CANCELLED AT 2031-11-16T12:50:02 DUE TO TIME LIMIT ***",
        "exit n1 0 @1 | Signal 15 (SIGTERM) received by PID 771",
    ]),
    "GCE spot": ({"platform"}, {"restart_job"}, [
        "k8s n1 @0 | operationType: compute.instances.preempted",
        "worker-stderr n2 8 @20 | [rank8]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
        "exit n2 8 @21 | exitcode: 1",
    ]),
    "GCE host error": ({"platform", "hardware"}, {"restart_job", "replace_node"}, [
        "k8s n1 @0 | compute.instances.hostError: Instance was terminated due to host error",
        "k8s n1 @60 | Node n1 status is now: NodeNotReady",
    ]),
    "karpenter consolidation": ({"platform"}, {"restart_job"}, [
        "k8s n1 @0 | Normal DisruptionTerminating node/n1 Disrupting Node: Underutilized/Delete",
        "k8s n1 @1 | Normal Killing Stopping container trainer",
        "exit n1 0 @31 | terminated: exitCode=137 reason=Error",
    ]),
    "kubectl drain": ({"platform"}, {"restart_job"}, [
        "k8s n1 @0 | Node n1 status is now: NodeNotSchedulable",
        "k8s n1 @1 | condition DisruptionTarget=True reason=EvictionByEvictionAPI message=Eviction API: evicting",
        "exit n1 0 @31 | terminated: exitCode=143 reason=Error",
    ]),
    "disk pressure eviction": ({"platform"}, {"restart_job", "dont_retry_notify_user"}, [
        "k8s n1 @0 | Node n1 status is now: NodeHasDiskPressure",
        "k8s n1 @5 | The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 4Gi.",
        "k8s n1 @6 | Status: Failed Reason: Evicted",
    ]),
    "emptyDir limit": ({"user"}, {"dont_retry_notify_user"}, [
        "k8s n1 @5 | Usage of EmptyDir volume \"cache\" exceeds the limit \"200Gi\".",
        "k8s n1 @6 | Status: Failed Reason: Evicted",
        "exit n1 0 @7 | exitCode: 137",
    ]),
    "node unreachable": ({"platform"}, {"restart_job"}, [
        "k8s n1 @0 | condition Ready=Unknown reason=NodeStatusUnknown Kubelet stopped posting node status.",
        "k8s n1 @300 | Normal TaintManagerEviction pod/worker-0 Marking for deletion Pod train/worker-0",
        "worker-stderr n2 8 @20 | NCCL WARN socketProgress: Connection closed by remote peer n1<40122>",
    ]),
    "image missing": ({"user"}, {"dont_retry_notify_user"}, [
        "k8s n1 @0 | Failed to pull image \"reg.local/train:2031.1\": rpc error: code = NotFound desc = failed to pull and unpack image \"reg.local/train:2031.1\": failed to resolve reference: not found",
        "k8s n1 @2 | Error: ImagePullBackOff",
    ]),
    "image rate limit": ({"platform"}, {"restart_job"}, [
        "k8s n1 @0 | Failed to pull image \"nvcr.io/x:1\": toomanyrequests: You have reached your pull rate limit.",
        "k8s n1 @2 | Error: ErrImagePull",
    ]),
    "checkpoint write, disk full": ({"platform", "user"}, {"dont_retry_notify_user"}, [
        "worker-stderr n1 0 @0 | RuntimeError: [enforce fail at inline_container.cc:450] . PytorchStreamWriter failed writing file data/771: file write failed",
        "worker-stderr n1 0 @0 | RuntimeError: [enforce fail at inline_container.cc:325] . unexpected pos 1231 vs 1125",
        "worker-stdout n1 @30 | fs01:/export/ckpt  500T  500T     0 100% /ckpt",
        "exit n1 0 @2 | exitcode: 1",
    ]),
    "quota": ({"user", "platform"}, {"dont_retry_notify_user"}, [
        "worker-stderr n1 0 @0 | OSError: [Errno 122] Disk quota exceeded: '/home/u/ckpt/step_1000'",
        "exit n1 0 @2 | exitcode: 1",
    ]),
    "local nvme dies": ({"hardware"}, {"replace_node"}, [
        "kmsg n1 @-5 | nvme nvme2: I/O 771 (I/O Cmd) QID 12 timeout, aborting",
        "kmsg n1 @0 | nvme nvme2: Device not ready; aborting reset, CSTS=0x1",
        "kmsg n1 @1 | XFS (nvme2n1): Filesystem has been shut down due to log error (0x2).",
        "worker-stderr n1 3 @2 | OSError: [Errno 5] Input/output error: '/local/cache/shard-17.bin'",
        "exit n1 3 @3 | exitcode: 1",
    ]),
    "nfs server gone": ({"platform"}, {"restart_job"}, [
        "kmsg n1 @0 | nfs: server nas-3 not responding, timed out",
        "kmsg n2 @0 | nfs: server nas-3 not responding, timed out",
        "worker-stderr n1 0 @10 | OSError: [Errno 5] Input/output error: '/data/tokens.bin'",
        "exit n1 0 @12 | exitcode: 1",
    ]),
    "nfs hang behind a collective time-out": ({"platform"}, {"restart_job"}, [
        "kmsg n1 @0 | nfs: server nas-3 not responding, still trying",
        "kmsg n1 @130 | INFO: task python:7373 blocked for more than 120 seconds.",
        "kmsg n1 @130 |  rpc_wait_bit_killable+0x1e/0xb0 [sunrpc]",
        "worker-stderr n2 8 @600 | [rank8]:[E ProcessGroupNCCL.cpp:632] [Rank 8] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600064 milliseconds before timing out.",
    ]),
    "nfs hiccup that passed": ({"platform", "unknown"}, {"wait_or_ignore"}, [
        "kmsg n1 @0 | nfs: server nas-3 not responding, still trying",
        "kmsg n1 @20 | nfs: server nas-3 OK",
        "worker-stdout n1 0 @40 | step 18221 | loss 2.0390 | 3.10 s/it",
    ]),
    "lustre eviction": ({"platform"}, {"restart_job"}, [
        "kmsg n1 @0 | LustreError: 167-0: scratch-OST0011-osc-ffff: This client was evicted by scratch-OST0011; in progress operations using this service will fail.",
        "worker-stderr n1 4 @1 | OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/scratch/data/x'",
        "exit n1 4 @3 | exitcode: 1",
    ]),
    "fuse bucket mount died": ({"platform"}, {"restart_job"}, [
        "worker-stderr n1 4 @1 | OSError: [Errno 107] Transport endpoint is not connected: '/mnt/s3/data'",
        "exit n1 4 @3 | exitcode: 1",
    ]),
    "S3 slow down": ({"platform"}, {"restart_job"}, [
        "worker-stderr n1 4 @1 | botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the GetObject operation (reached max retries: 4): Please reduce your request rate.",
        "exit n1 4 @3 | exitcode: 1",
    ]),
    "S3 denied from the start": ({"user", "platform"}, {"dont_retry_notify_user"}, [
        "worker-stderr n1 0 @1 | botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling the ListObjectsV2 operation: User is not authorized to perform: s3:ListBucket",
        "exit n1 0 @3 | exitcode: 1",
    ]),
    "S3 token expired after hours": ({"user", "platform"}, {"restart_job", "dont_retry_notify_user"}, [
        "worker-stdout n1 0 @40000 | step 18221 | loss 2.0390 | 3.10 s/it",
        "worker-stderr n1 0 @43201 | botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling the PutObject operation: The provided token has expired.",
        "exit n1 0 @43203 | exitcode: 1",
    ]),
    "hub 5xx": ({"platform"}, {"restart_job"}, [
        "worker-stderr n1 0 @1 | huggingface_hub.errors.HfHubHTTPError: 504 Server Error: Gateway Time-out for url: https://huggingface.co/api/models/x",
        "exit n1 0 @3 | exitcode: 1",
    ]),
    "gated model": ({"user"}, {"dont_retry_notify_user"}, [
        "worker-stderr n1 0 @1 | huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo for url https://huggingface.co/metta/m",
        "worker-stderr n1 0 @1 | OSError: You are trying to access a gated repo.",
        "exit n1 0 @3 | exitcode: 1",
    ]),
    "dns": ({"platform"}, {"restart_job"}, [
        "worker-stderr n1 0 @1 | urllib3.exceptions.NameResolutionError: <urllib3.connection.HTTPSConnection object at 0x7f>: Failed to resolve 'store.local' ([Errno -3] Temporary failure in name resolution)",
        "exit n1 0 @3 | exitcode: 1",
    ]),
    "nofile": ({"user", "platform"}, {"dont_retry_notify_user"}, [
        "worker-stderr n1 0 @1 | OSError: [Errno 24] Too many open files: '/data/shard-1021.tar'",
        "exit n1 0 @3 | exitcode: 1",
    ]),
    "pids limit": ({"user", "platform"}, {"dont_retry_notify_user"}, [
        "kmsg n1 @0 | cgroup: fork rejected by pids controller in /kubepods/burstable/pod1",
        "worker-stderr n1 0 @1 | RuntimeError: can't start new thread",
        "exit n1 0 @3 | exitcode: 1",
    ]),
    "infiniband device not permitted": ({"platform"}, {"dont_retry_notify_user"}, [
        "worker-stderr n1 0 @1 | libibverbs: Warning: couldn't open /dev/infiniband/uverbs0: Permission denied",
        "exit n1 0 @3 | exitcode: 1",
    ]),
    "admin reboot": ({"platform"}, {"restart_job"}, [
        "kmsg n1 @0 | sudo: alice : TTY=pts/3 ; PWD=/home/alice ; USER=root ; COMMAND=/sbin/reboot",
        "kmsg n1 @5 | systemd-shutdown[1]: Sending SIGTERM to remaining processes...",
        "k8s n1 @60 | Node n1 status is now: NodeNotReady",
        "worker-stderr n2 8 @20 | NCCL WARN socketProgress: Connection closed by remote peer n1<40122>",
    ]),
    "affinity that fits nowhere": ({"user"}, {"dont_retry_notify_user"}, [
        "k8s @0 | 0/24 nodes are available: 8 Insufficient nvidia.com/gpu, 16 node(s) didn't match Pod's node affinity/selector. preemption: 0/24 nodes are available.",
    ]),
    "quota of the namespace": ({"user"}, {"dont_retry_notify_user"}, [
        "k8s @0 | Error creating: pods \"train-0\" is forbidden: exceeded quota: compute, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=64, limited: requests.nvidia.com/gpu=64",
    ]),
    "secret missing": ({"user"}, {"dont_retry_notify_user"}, [
        "k8s n1 @0 | Error: secret \"hf-token\" not found",
        "k8s n1 @0 | worker-0 0/1 CreateContainerConfigError",
    ]),
    "cni": ({"platform"}, {"restart_job"}, [
        "k8s n1 @0 | Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"1f\": plugin type=\"aws-cni\" name=\"aws-cni\" failed (add): add cmd: failed to assign an IP address to container",
    ]),
    "prolog": ({"platform"}, {"restart_job"}, [
        "worker-stderr n1 @0 | srun: error: Task launch for StepId=991.0 failed on node n1: Job prolog failed",
        "exit n1 @1 | srun: error: Application launch failed: Job prolog failed",
    ]),
    "clean end": ({"unknown"}, {"wait_or_ignore"}, [
        "worker-stdout n1 0 @0 | step 20000 | loss 1.71 | 3.10 s/it",
        "exit n1 0 @5 | exit code 0",
        "exit n1 1 @5 | exit code 0",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_case(name: str) -> None:
    whose, actions, texts = _CASES[name]
    lines = [parse_test_line(text) for text in texts]
    known = [line for line in lines if line is not None]
    assert len(known) == len(texts), "a line of the case is not of the test form"
    forward, backward = _ENGINE.diagnose(known).judgement, _ENGINE.diagnose(known[::-1]).judgement
    assert (str(forward.attribution) in whose, str(forward.action) in actions) == (True, True), (
        forward.attribution, forward.cause, forward.action, [(one.rule.rule_id, one.score) for one in forward.hypotheses],
    )  # fmt: skip
    assert (forward.attribution, forward.action) == (backward.attribution, backward.action), "order decided"

"""Every kind that a derivation yields, with its meaning. Rules may name these; another word is a typing error.

tests/unit/fault_attribution/test_fault_attribution_derived_kinds.py keeps it equal to what the derivations do.
"""

from __future__ import annotations

DERIVED_KINDS: dict[str, str] = {
    # collectives.py
    "missing_rank": "a rank that did not come; captures how (told, silent, root), waiting",
    "rank_behind": "a rank that is fewer collectives ahead than the others; captures behind_by",
    "mismatched_collectives": "ranks were in different collectives, or in one with different sizes or types",
    "all_ranks_waited": "every known rank waited, so no rank is missing",
    # exits.py
    "exit_failed": "somebody ended with a code other than 0 or by a signal; captures code, signal",
    "exit_clean": "somebody ended with 0",
    "job_failed": "anybody failed",
    "ended_well": "somebody ended with 0 and nobody failed",
    # gpu_compare.py
    "slow_in_benchmark": "a node that is worse in a measurement than the others; captures percent, value, typical",
    # gpu_history.py
    "gpu_evidence": "a device's own word that it failed; captures of",
    "fault_again": "the same fault of the same device under another process, or minutes apart; captures of",
    "same_sm_again": "Xid 13 on the same SM of one GPU under another process, or minutes apart",
    "sm_varies": "Xid 13 on different SMs or GPUs",
    "same_link_again": "an NVLink that told of errors before",
    "same_address_again": "Xid 31 at the same address of one GPU under different processes",
    "nvlink_ignorable": "the registers of an Xid 74 show nothing that lasts",
    "nvlink_peer_end": "the registers of an Xid 74 blame the other end of the link",
    "nvlink_hard": "the registers of an Xid 74 show a broken link",
    "stale_fault": "a fault that is dated before the machine, driver or fabric manager was last started",
    # gpu_readings.py
    "gpu_sw_power_cap": "clocks are lowered by the configured power limit",
    "gpu_hw_slowdown": "clocks are lowered by the hardware; the reason is another bit",
    "gpu_sw_thermal": "clocks are lowered because the GPU or its memory is warm",
    "gpu_hw_thermal": "clocks are halved because the GPU is too hot",
    "gpu_power_brake": "clocks are lowered by the power brake from outside",
    "throttle_lasts": "the same of these on one GPU minutes apart; captures of",
    "gpu_ecc_counted": "uncorrectable errors since the last reset; captures value, grew",
    "gpu_ecc_past": "uncorrectable errors in the life of the GPU",
    "gpu_ecc_storm": "corrected errors in a number that costs time; captures value, grew",
    "gpu_ecc_corrected": "corrected errors, few",
    "gpu_rows_remapped": "rows that were remapped after uncorrectable errors",
    "gpu_retired_pages": "pages that wait for retirement",
    "gpu_pcie_replay": "repeats on the PCIe link that grow quickly",
    "gpu_pcie_idle": "a PCIe link that is slow because the GPU is idle",
    "gpu_pcie_generation": "a PCIe link of a lower generation than it can have",
    "gpu_pcie_full": "a PCIe link that runs as it can",
    "gpu_pcie_width": "a PCIe link with fewer lanes than it can have",
    "gpu_power_at_limit": "a GPU draws what it may",
    "gpu_temperature": "a GPU is too hot",
    "gpu_memory_temperature": "the memory of a GPU is too hot",
    # host_capacity.py
    "disk_full": "a file system has no room left; captures mount, pct",
    "disk_roomy": "every reading of the node's file systems shows room",
    "host_memory_full": "next to no memory was available",
    "cpu_overloaded": "several times as many tasks wanted a processor as there are",
    "request_exceeds_node": "a waiting job asks one node for more than any node known has; captures what, asked, most",
    # host_outage.py
    "node_came_back": "a node that was lost is heard of again",
    "reboot_ordered": "a node shut down in order, or somebody is known to have rebooted it",
    "reboot_unexplained": "a node started again, or was rebooted, and nothing says who or what did it",
    "remediation_unfounded": "remediation software rebooted a node of which no device says anything in its own log",
    "remediation_repeated": "remediation software rebooted a node again after it had been returned to work",
    "many_nodes_lost": "several nodes were lost in one incident; captures lost",
    # host_sharing.py
    "stale_one_file": "several ranks found one and the same file stale: they race for it",
    "stale_many_files": "different files are stale, on different nodes or for different jobs: their server is at fault",
    "storage_failed_many": "one kind of storage trouble on several nodes; captures trouble, on",
    "absent_on_some_nodes": "a file or module is missing on some nodes while other nodes of the job run on",
    "failed_again": "the same rank failed more than a minute apart: what is wrong stays wrong",
    "killed_unexplained": "killed from outside, and nothing says by whom",
    # progress.py
    "work_went_on": "work is seen after the trouble, or its good end; captures how (order, time, end, unharmed)",
    "nothing_failed": "no process failed and no worker told of trouble",
    "never_trained": "workers wrote, and no step, epoch or checkpoint is among it",
    "hours_in": "the job had run for an hour or a thousand steps",
    "large_job": "256 ranks or more",
    "small_job": "8 ranks or fewer, as far as is seen",
    "steps_slower": "a rank's steps became slower; captures ratio",
    "steps_recovered": "and they were fast again",
    "slow_on_one_node": "steps of one node are slower than those of the others; captures ratio",
    # rank_story.py
    "rank_in_data": "the last words of the rank that did not come are about loading data",
    "rank_in_preprocessing": "they are about preprocessing",
    "rank_in_evaluation": "they are about an evaluation",
    "rank_in_checkpoint": "they are about a checkpoint",
    "rank_in_download": "they are about a download",
    "rank_in_compile": "they are about compiling",
    "rank_in_own_work": "they are about work that only this rank does",
    "rank_skipped": "it left a step or the loop by its own decision",
    "rank_left_early": "it ended with 0 while others waited",
    "rank_died_first": "it failed for a reason of its own while others waited",
    "rank_trained_on": "its last words are a step: nothing explains why it did not come",
    # transports.py
    "net_plugin_differs": "some ranks loaded a network plugin or another transport, and others did not",
    "nccl_version_differs": "ranks print different versions of NCCL",
    "gid_networks_differ": "the two ends of an RDMA connection that fails are in different networks",
    "ports_fail_across": "connections fail between different adapters of two nodes (mlx5_5, mlx5_2): crossed rails",
    # user_gpu_memory.py
    "oom_request_too_large": "one allocation asked for more than the whole device",
    "oom_by_itself": "the failing process held most of the device: its batch, model or leak is too large",
    "oom_held_by_others": "other processes held a good part of it",
    "oom_with_free_memory": "the allocation would have fitted into what was free: fragmented, limited or broken memory",
    "gpu_memory_full": "a reading of the device shows it as good as full",
    "gpu_memory_without_owner": "a reading shows memory in use and no process that uses it",
    # user_job.py
    "data_bound": "steps mostly wait for their data; captures share",
    "visible_devices_malformed": "a list of visible GPUs that CUDA cannot read",
    "visible_devices_many_mig": "a list with several MIG slices, of which CUDA gives a process only the first",
    "nan_on_one_rank": "numbers went wrong on one rank of several that report",
    # user_same_code.py
    "same_error_everywhere": "one error on several ranks; captures error, ranks, nodes",
    "same_error_again": "one error of one rank twice, with a restart or minutes between; captures error, times",
    # victims.py
    "first_failing_rank": "the rank with a reason of its own while others only noticed that a peer was gone",
    "victims_only": "somebody noticed a failed peer or waited in vain, and nothing says why",
    "many_nodes_lost_link": "links of several nodes failed: what they share is to be blamed, not each of them",
}

"""Kinds of findings that no line tells: what agents and the live judge see themselves. Cause rules may name them."""

from __future__ import annotations

LIVE_KINDS: dict[str, str] = {
    # How a rank ended; one of these for the first death of a node that is nobody else's consequence.
    "oom_kill": "the kernel's OOM killer ended a process; captures seen_by=agent and repeated (yes, no) for a rank",
    "process_killed": "SIGKILL, and no record of the kernel's OOM killer",
    "oom_record_unreadable": "whether an OOM kill was it is not known",
    "restart_asked": "the script asked for a restart; captures level",
    "repeated_exception": "the same exception at the same place as in earlier generations; captures by (step, count)",
    "startup_exception": "an error of loading the program, before any step",
    "first_exception": "an exception that is no repetition; captures type",
    "native_crash": "a signal of the process's own doing (SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL)",
    "other_signal": "any other signal; captures signal",
    "exit_without_reason": "a code other than 0 and no exception; captures code",
    "status_lost": "it ended, and nobody could read how",
    "exit_status": "how any rank ended; captures code, signal",
    "rank_followed": "a death that only follows from another one",
    # Ranks that live and cannot go on; captures rule (of the agent), ranks.
    "process_stopped": "stopped by a signal, or its main thread has ended",
    "process_blocked": "in uninterruptible sleep without I/O",
    "hang": "no progress, and the evidence shows no long phase",
    "log_rule": "a log rule of the site held on a rank",
    "repeated_log_rule": "the same log rule as in earlier generations; captures by (step, count)",
    "stack_in_data": "the stack of a rank stands in its data loader while others wait",
    "stack_in_checkpoint": "the stack of a rank stands in saving or loading a checkpoint",
    "stack_in_evaluation": "the stack of a rank stands in an evaluation",
    "stack_in_collective": "the stack of a rank stands in a collective",
    "stack_in_other": "the stack of a rank stands in code of its own",
    "missing_rank": "a rank that others wait for, by the stacks of all; captures how=stack",
    # Nodes, devices, the gang.
    "agent_lost": "the agent of a node no longer answers",
    "device_fault": "a device failed under the job; captures origin, family, check, action, reported, driver_action",
    "communication_error": "all deaths are communication errors with a peer, and no cause is known",
    "told_to_end": "a rank was asked to end, and no other cause is known",
    "unread_report": "something was reported that no rule reads",
    "nothing_reported": "an incident without evidence",
    # Around the job.
    "same_cause_in_other_jobs": "other jobs broke of the same cause at the time; captures jobs, nodes",
    "other_jobs_failed_here": "other jobs broke on the same nodes at the time; captures jobs, nodes",
}
"""Beside these, the check of every condition of a node is a kind: CONDITION_KINDS."""

CONDITION_KINDS: frozenset[str] = frozenset({
    "clock_skew", "disk_inodes", "disk_readonly", "disk_space", "events_dropped", "fabric_manager", "foreign_*",
    "fs_error", "gpu_clock_outlier", "gpu_count", "gpu_driver", "gpu_ecc_corrected", "gpu_ecc_uncorrected",
    "gpu_fabric", "gpu_hw_*", "gpu_inforom", "gpu_init_failed", "gpu_lost", "gpu_memory_temperature", "gpu_mig",
    "gpu_pcie_*", "gpu_power", "gpu_power_brake", "gpu_processes", "gpu_reset_required", "gpu_retired_pages",
    "gpu_row_remap_banks", "gpu_row_remap_failure", "gpu_row_remap_pending", "gpu_sram_threshold", "gpu_sw_thermal",
    "gpu_temperature", "gpu_temperature_outlier", "hung_task", "kmsg_*", "lib_segfault", "link_slow", "mce", "mce_*",
    "memory_ecc_corrected", "memory_ecc_uncorrected", "memory_pressure", "nic_cable", "nic_count", "nic_errors",
    "nic_flap", "nic_link", "nic_link_event", "nic_rate", "nmi_unknown", "nvidia_persistenced", "nvlink_*",
    "nvml_hang", "nvml_version", "oom_kill", "pcie_aer", "pcie_aer_corrected", "process_blocked_host", "soft_lockup",
    "sxid_*", "xid_*",
})  # fmt: skip
"""Checks of the policies of health-ingest (docs/health.md, docs/kernel-log.md, docs/nvml.md, docs/xids.md)."""

"""Settings of the agent's two roles (launcher: what is not a flag of `phalanx run`; host: all). Read in main only."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field, field_validator

from fault_contracts.node_actions import NodeAction
from node_agent.application.act_on_node import ActionPolicy
from node_agent.application.node_action_options import (
    NodeActionOptions,
    read_allowed,
    read_commands,
    read_quiesce,
)
from node_agent.application.reset_gpu import ResetLimits
from service_kit.settings import BusSettings


class AgentSettings(BusSettings):
    """BusSettings and the agent's own intervals."""

    heartbeat_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_AGENT_HEARTBEAT", "heartbeat_s"), gt=0, le=60)
    ] = 2.0
    """[PHALANX_AGENT_HEARTBEAT] Seconds between heartbeats. When three are missing the planner asks the agent
    directly."""
    catch_up_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_AGENT_CATCH_UP", "catch_up_s"), gt=0, le=600)
    ] = 5.0
    """[PHALANX_AGENT_CATCH_UP] Seconds between two looks at the newest stored command; a lost push costs this much."""
    outbox_drain_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_AGENT_DRAIN", "outbox_drain_s"), ge=0, le=600)
    ] = 3.0
    """[PHALANX_AGENT_DRAIN] Seconds an agent that leaves waits for the bus to take its last events; those that are left
    stay in its outbox file and are sent by the next agent of this node and job."""
    read_output: Annotated[bool, Field(validation_alias=AliasChoices("PHALANX_READ_OUTPUT", "read_output"))] = True
    """[PHALANX_READ_OUTPUT] Read the output of the ranks by the signatures of known errors (docs/findings.md), and tell
    the judge what they find. It takes some 15 MB of the agent and at most a twentieth of a core; 0 switches it off."""
    rules: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_RULES", "rules"))] = ""
    """[PHALANX_RULES] Folders of a site's own rules, separated by colons, over the shipped ones (docs/rules.md). Read
    again when they change."""

    @property
    def overlays(self) -> tuple[Path, ...]:
        """A site's own folders of rules."""
        return tuple(Path(folder) for folder in self.rules.split(":") if folder)


class NvmlUse(StrEnum):
    """Whether the host role asks the GPU driver's library."""

    AUTO = "auto"
    """Where the library is there; a machine without is told once."""
    ON = "on"
    """A library that is not there is a failing collector."""
    OFF = "off"


class NodeActionSettings(BusSettings):
    """What may be done to this machine when it is ordered, and with which commands (docs/node-actions.md)."""

    actions: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_NODE_ACTIONS", "actions"))] = "validate"
    """[PHALANX_NODE_ACTIONS] What may be ordered, separated by commas: validate, reset_gpu, reboot, drain; none. A dry
    run is always answered. Only what harms nothing is permitted unless the operator says more."""
    reset_command: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_RESET_COMMAND", "reset_command"))] = (
        "nvidia-smi --gpu-reset -i {pci}.0"
    )
    """[PHALANX_RESET_COMMAND] Resets one GPU; {pci} {uuid} {index} {minor} {node} are put in. Run without a shell."""
    reboot_command: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_REBOOT_COMMAND", "reboot_command"))] = (
        "systemctl reboot"
    )
    """[PHALANX_REBOOT_COMMAND] Reboots the machine."""
    drain_command: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_DRAIN_COMMAND", "drain_command"))] = ""
    """[PHALANX_DRAIN_COMMAND] Takes the machine out of service; empty: drain is refused."""
    validate_flags: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_VALIDATE_FLAGS", "validate_flags"))] = (
        ""
    )
    """[PHALANX_VALIDATE_FLAGS] Flags of `phalanx validate` for validations by order, e.g. `--gpus 8 --nics 8`."""
    quiesce: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_QUIESCE", "quiesce"))] = ""
    """[PHALANX_QUIESCE] Services that hold GPUs and are stopped for a reset: a JSON list of objects with `stop`,
    `start` and `processes` (names in /proc/PID/comm)."""
    validate_limit_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_VALIDATE_LIMIT", "validate_limit_s"), gt=0, le=86_400)
    ] = 900.0
    """[PHALANX_VALIDATE_LIMIT] Seconds for a validation by order: two fresh rounds take a minute or two, and eight GPUs
    with their pairs another few."""
    command_limit_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_ACTION_LIMIT", "command_limit_s"), gt=0, le=86_400)
    ] = 120.0
    """[PHALANX_ACTION_LIMIT] Seconds for each command of an action; then it is killed and the action has failed."""
    verify_limit_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_VERIFY_LIMIT", "verify_limit_s"), gt=0, le=3_600)
    ] = 90.0
    """[PHALANX_VERIFY_LIMIT] Seconds for fresh looks at a GPU after its reset: three sweeps."""
    reboot_limit_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_REBOOT_LIMIT", "reboot_limit_s"), gt=0, le=86_400)
    ] = 300.0
    """[PHALANX_REBOOT_LIMIT] Seconds after which a machine that is still up did not reboot. systemd gives services 90 s
    to stop."""
    catch_up_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_ORDER_CATCH_UP", "catch_up_s"), gt=0, le=600)
    ] = 15.0
    """[PHALANX_ORDER_CATCH_UP] Seconds between two looks at the newest stored order; a lost push costs this much."""
    dev_root: Annotated[Path, Field(validation_alias=AliasChoices("PHALANX_DEV_ROOT", "dev_root"))] = Path("/dev")
    """[PHALANX_DEV_ROOT] Where the files of devices are; another folder in tests."""

    def options(self) -> NodeActionOptions:
        """The same as values."""
        commands = {
            NodeAction.RESET_GPU: self.reset_command,
            NodeAction.REBOOT: self.reboot_command,
            NodeAction.DRAIN: self.drain_command,
        }
        return NodeActionOptions(
            policy=ActionPolicy(
                allowed=read_allowed(self.actions),
                validate_s=self.validate_limit_s,
                command_s=self.command_limit_s,
                reboot_s=self.reboot_limit_s,
            ),
            commands=read_commands(commands, self.quiesce),
            validate_flags=tuple(shlex.split(self.validate_flags)),
            reset=ResetLimits(command_s=self.command_limit_s, verify_s=self.verify_limit_s),
        )

    @field_validator("actions")
    @classmethod
    def _known_actions(cls, text: str) -> str:
        read_allowed(text)
        return text

    @field_validator("reset_command", "reboot_command", "drain_command", "validate_flags")
    @classmethod
    def _words(cls, text: str) -> str:
        shlex.split(text)
        return text

    @field_validator("quiesce")
    @classmethod
    def _known_services(cls, text: str) -> str:
        read_quiesce(text)
        return text


class HostSettings(NodeActionSettings):
    """BusSettings, what may be done to the machine, and what the host role watches (this has a flag each)."""

    node_id: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_NODE_ID", "node_id"), max_length=256)] = ""
    """[PHALANX_NODE_ID] Name of this machine; default: the host's name, as for `phalanx run`. The two must be equal:
    the health of a node and its ranks meet under it."""
    data_dir: Annotated[Path, Field(validation_alias=AliasChoices("PHALANX_DATA_DIR", "data_dir"))] = Path(".phalanx")
    """[PHALANX_DATA_DIR] Folder of the outbox and of host.json; the host role uses `hosts/NODE` in it."""
    kmsg_path: Annotated[Path, Field(validation_alias=AliasChoices("PHALANX_KMSG", "kmsg_path"))] = Path("/dev/kmsg")
    """[PHALANX_KMSG] The kernel log: the device, or a file or FIFO of the same records in tests and drills; none: it is
    not read."""
    nvml: Annotated[NvmlUse, Field(validation_alias=AliasChoices("PHALANX_NVML", "nvml"))] = NvmlUse.AUTO
    """[PHALANX_NVML] auto | on | off: ask the GPU driver's library, in a child process."""
    nvml_library: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_NVML_LIBRARY", "nvml_library"))] = ""
    """[PHALANX_NVML_LIBRARY] Path of libnvidia-ml.so.1; empty: the loader's search path."""
    gpus_expected: Annotated[
        int | None, Field(validation_alias=AliasChoices("PHALANX_GPUS_EXPECTED", "gpus_expected"), ge=0, le=64)
    ] = None
    """[PHALANX_GPUS_EXPECTED] GPUs that this machine must have; unset: as many as were seen first."""
    nics_expected: Annotated[
        int | None, Field(validation_alias=AliasChoices("PHALANX_NICS_EXPECTED", "nics_expected"), ge=0, le=128)
    ] = None
    """[PHALANX_NICS_EXPECTED] RDMA adapters (InfiniBand, RoCE, EFA) that this machine must have, on a machine without
    any: Ethernet adapters; unset: as many as were seen first."""
    sweep_s: Annotated[float, Field(validation_alias=AliasChoices("PHALANX_SWEEP", "sweep_s"), ge=0.05, le=600)] = 30.0
    """[PHALANX_SWEEP] Seconds between two full looks of a collector. What nobody looked at for three of them is
    unknown."""
    network_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_NETWORK_INTERVAL", "network_s"), ge=0.05, le=600)
    ] = 10.0
    """[PHALANX_NETWORK_INTERVAL] Seconds between two looks at the network adapters: a collective that lost
    a link waits some 20 s for it (NCCL_IB_TIMEOUT and its retries), so that it is known by then."""
    whole_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_WHOLE_TABLE", "whole_s"), ge=1, le=86_400)
    ] = 600.0
    """[PHALANX_WHOLE_TABLE] Seconds between two tellings of the whole table, good rows included."""
    disks: Annotated[str, Field(validation_alias=AliasChoices("PHALANX_DISKS", "disks"))] = "/:/tmp:/dev/shm"
    """[PHALANX_DISKS] Folders, separated by colons, whose file systems must have room."""
    disk_free_ratio_min: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_DISK_FREE_MIN", "disk_free_ratio_min"), ge=0, lt=1)
    ] = 0.05
    """[PHALANX_DISK_FREE_MIN] Share of a file system, and of its inodes, that must be free. Kubernetes evicts at 0.10
    of space and 0.05 of inodes; a checkpoint needs room more than a share, so the smaller one holds for both."""
    blocked_s_max: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_BLOCKED_MAX", "blocked_s_max"), gt=0, le=86_400)
    ] = 120.0
    """[PHALANX_BLOCKED_MAX] Seconds that a process may be in uninterruptible sleep. 120 is the kernel's own
    (kernel.hung_task_timeout_secs)."""
    sys_root: Annotated[Path, Field(validation_alias=AliasChoices("PHALANX_SYS_ROOT", "sys_root"))] = Path("/sys")
    """[PHALANX_SYS_ROOT] Where sysfs is mounted; another folder in tests, and in a container that sees the host's."""
    proc_root: Annotated[Path, Field(validation_alias=AliasChoices("PHALANX_PROC_ROOT", "proc_root"))] = Path("/proc")
    """[PHALANX_PROC_ROOT] Where proc is mounted."""
    connect_limit_s: Annotated[
        float, Field(validation_alias=AliasChoices("PHALANX_CONNECT_LIMIT", "connect_limit_s"), gt=0, le=86_400)
    ] = 86_400.0
    """[PHALANX_CONNECT_LIMIT] Seconds to wait for the first connection: a machine's daemon outlives its bus. The
    kernel keeps its log meanwhile."""

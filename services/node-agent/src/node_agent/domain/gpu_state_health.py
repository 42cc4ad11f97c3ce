"""Whether a GPU is there at all, what the driver wants done with it, its fabric, its slices, and who computes on it.

Sources: nvml.h (nvmlReturn_t, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, nvmlGpuFabricInfoV_t). The fabric's health mask is
packed, two bits a question, where 1 means yes and 2 means no: a mask that is not zero is no fault by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fault_contracts.payload import Health
from node_agent.domain.gpu_look import GpuLook, health_of
from node_agent.domain.gpu_reading import NvmlCode, code_name
from node_agent.domain.observation import Observation
from node_agent.domain.recovery_action import ATTRIBUTE, recovery_action

FABRIC_STATES = {1: "not started", 2: "in progress", 3: "completed"}
FABRIC_COMPLETED = 3
FABRIC_QUESTIONS = {
    0: "bandwidth is degraded",
    2: "a route is being recovered",
    4: "a route is unhealthy",
    6: "it recovers from an access timeout",
}
"""By the place of their two bits; 1 means yes."""
FABRIC_CONFIGURATION_SHIFT = 8
FABRIC_CONFIGURATION_FAULTS = {
    2: "wrong system GUID",
    3: "wrong chassis serial number",
    4: "no partition",
    5: "too few NVLinks",
    6: "incompatible firmware of the GPU",
    7: "invalid location",
    8: "invalid state of the GPU",
}
"""Four bits; 1 means none (nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_*)."""
FABRIC_SUMMARIES = {2: "unhealthy", 3: "of limited capacity"}
LIST_CHARS_MAX = 400
"""Of pids or slices in one attribute; it holds 512."""


def presence(look: GpuLook) -> Iterator[Observation]:
    """Is it there, and does it answer."""
    code = look.reading.lost
    if code == NvmlCode.GPU_IS_LOST:
        yield look.tell("gpu_lost", Health.BAD, "the driver has lost the GPU: it fell off the bus, or does not answer")
        return
    if code is not None and code != NvmlCode.RESET_REQUIRED:
        yield look.tell("gpu_lost", Health.UNKNOWN, f"the GPU cannot be opened: NVML says {code_name(code)}")
        return
    yield look.tell("gpu_lost", Health.OK, "the GPU answers")
    wanted = code == NvmlCode.RESET_REQUIRED or NvmlCode.RESET_REQUIRED in look.reading.errors.values()
    detail = "the driver refuses to work on the GPU until it is reset" if wanted else "the driver asks for no reset"
    yield look.tell("gpu_reset_required", health_of(wanted), detail)


def missing(look: GpuLook) -> Observation:
    """A GPU that was there and is no longer listed."""
    return look.tell("gpu_lost", Health.BAD, "the GPU was here when the agent began to watch and is no longer listed")


def wish(look: GpuLook) -> Iterator[Observation]:
    """What the driver wants done. A value that nobody here knows is told as it is."""
    value = look.number("recovery_action")
    yield from look.unknown("gpu_recovery_action", "recovery_action")
    if value is None:
        return
    action = recovery_action(value)
    detail = f"the driver wants: {action.replace('_', ' ')}" if value else "the driver wants nothing"
    attributes = {ATTRIBUTE: action, "witness": "nvml"}
    yield look.tell(
        "gpu_recovery_action", health_of(value != 0), detail, values={"action": value}, attributes=attributes
    )


def fabric(look: GpuLook) -> Iterator[Observation]:
    """Membership in the NVLink fabric, where there is one."""
    state, status = look.number("fabric_state"), look.number("fabric_status")
    yield from look.unknown("gpu_fabric", "fabric_state")
    if not state:
        return  # 0: not supported
    faults = []
    if state != FABRIC_COMPLETED:
        faults.append(f"registration is {FABRIC_STATES.get(state, f'in state {state}')}")
    elif status:
        faults.append(f"registration failed with {code_name(status)}")
    faults += _fabric_faults(look.number("fabric_mask") or 0, look.number("fabric_summary") or 0)
    detail = f"fabric: {'; '.join(faults)}" if faults else "registered with the NVLink fabric"
    values = {name: look.number(f"fabric_{name}") for name in ("state", "status", "mask", "summary")}
    yield look.tell("gpu_fabric", health_of(bool(faults)), detail, values=values)


def _fabric_faults(mask: int, summary: int) -> list[str]:
    faults = [words for shift, words in FABRIC_QUESTIONS.items() if mask >> shift & 0x3 == 1]
    configuration = mask >> FABRIC_CONFIGURATION_SHIFT & 0xF
    if configuration in FABRIC_CONFIGURATION_FAULTS:
        faults.append(FABRIC_CONFIGURATION_FAULTS[configuration])
    if not faults and summary in FABRIC_SUMMARIES:
        faults.append(f"its health is {FABRIC_SUMMARIES[summary]}")
    return faults


def mig(look: GpuLook) -> Iterator[Observation]:
    """Slices, and a mode that waits for a reset; neither is a fault."""
    current, pending = look.number("mig_mode"), look.number("mig_pending")
    yield from look.unknown("gpu_mig", "mig_mode")
    if current is None:
        return
    slices = look.reading.slices
    mode = f"MIG is on, with {len(slices)} instances" if current else "MIG is off"
    waits = "; the other mode waits for a reset" if pending is not None and pending != current else ""
    values = {"mode": current, "pending": pending, "instances": len(slices)}
    attributes = {"instances": _listed(slices)}
    yield look.tell("gpu_mig", Health.OK, mode + waits, values=values, attributes=attributes)


def processes(look: GpuLook) -> Iterator[Observation]:
    """Who computes on it."""
    yield from look.unknown("gpu_processes", "processes")
    if look.number("processes") is None:
        return
    pids = [str(pid) for pid in look.reading.pids]
    detail = f"{len(pids)} processes compute on it" if pids else "no process computes on it"
    attributes = {"pids": _listed(pids)}
    yield look.tell("gpu_processes", Health.OK, detail, values={"processes": len(pids)}, attributes=attributes)


def _listed(words: Sequence[str]) -> str:
    text = ",".join(words)
    return text if len(text) <= LIST_CHARS_MAX else text[: text.rfind(",", 0, LIST_CHARS_MAX)] + ",…"

"""NVML's events, in a child process of their own: Xids, and changes of the driver's wish.

Only what happens after the registration is told. An event type that a GPU does not support would fail the registration
of all, so each GPU is asked first (nvml.h, nvmlDeviceRegisterEvents).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml as nvml

from node_agent.adapters import nvml_calls

XID = 0x8
RECOVERY_ACTION = 0x8000
WAIT_MS = 1_000
"""Between two looks at whether the agent still listens."""
NO_INSTANCE = 0xFFFFFFFF
Send = Callable[[dict[str, Any]], None]


def tell(open_library: Callable[[], None], send: Send) -> None:
    """Until the agent closes its end, or NVML refuses; the reason is sent."""
    call = "nvmlInit"
    try:
        open_library()
        call = "nvmlDeviceRegisterEvents"
        events = nvml.nvmlEventSetCreate()
        registered = _register(events)
        send({"watching": registered})
        call = "nvmlEventSetWait"
        while registered:
            try:
                event = nvml.nvmlEventSetWait(events, WAIT_MS)
            except nvml.NVMLError_Timeout:
                send({"alive": True})
                continue
            told = _told(event)
            if told is not None:
                send({"event": told})
    except nvml.NVMLError as error:
        send({"refused": {"call": call, "code": error.value}})


def _register(events: Any) -> int:
    """Number of GPUs whose events will come."""
    registered = 0
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            wanted = (XID | RECOVERY_ACTION) & nvml.nvmlDeviceGetSupportedEventTypes(handle)
            if wanted:
                nvml.nvmlDeviceRegisterEvents(handle, wanted, events)
                registered += 1
        except nvml.NVMLError:
            continue  # a lost GPU, or one without events: the looks tell it, the others are to be watched
    return registered


def _told(event: Any) -> dict[str, Any] | None:
    about = {"uuid": _of(nvml.nvmlDeviceGetUUID, event.device), "pci": _address(event.device)}
    if event.eventType == XID:
        return {
            **about,
            "kind": "xid",
            "code": int(event.eventData),
            "gpu_instance": None if event.gpuInstanceId == NO_INSTANCE else event.gpuInstanceId,
            "compute_instance": None if event.computeInstanceId == NO_INSTANCE else event.computeInstanceId,
        }
    if event.eventType == RECOVERY_ACTION:
        action = nvml_calls.recovery_action(event.device)
        return None if action is None else {**about, "kind": "recovery_action", "action": action}
    return None


def _of(call: Callable[[Any], Any], handle: Any) -> str:
    try:
        return str(call(handle))
    except nvml.NVMLError:
        return ""  # the event says that the GPU is sick; what it can no longer say is found by its address


def _address(handle: Any) -> str:
    try:
        return str(nvml.nvmlDeviceGetPciInfo(handle).busId)
    except nvml.NVMLError:
        return ""  # as above, by its uuid

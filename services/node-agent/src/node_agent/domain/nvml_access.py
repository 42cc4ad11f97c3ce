"""What it means that NVML cannot be used, or does not come back: no GPU here, no driver, the wrong driver, a hang.

Sources: nvmlReturn_t of nvml.h. LIB_RM_VERSION_MISMATCH: the driver was upgraded under a process or a container that
still has the old library; nothing is wrong with a GPU. A call that does not return is a sick GPU or driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.gpu_reading import NvmlCode, code_name
from node_agent.domain.observation import Observation

_NO_DRIVER = (NvmlCode.LIBRARY_NOT_FOUND, NvmlCode.DRIVER_NOT_LOADED)
CHILDREN_LEFT_MAX = 2
"""Processes that hang in the driver and cannot be killed. Each holds some 15 MB, and a third would tell nothing new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """A call that did not come back in time.

    Attributes:
        pci_bus_id, uuid, index: which GPU was being read; empty and None: the driver as a whole (nvmlInit).
        limit_s: how long was waited.
    """

    pci_bus_id: str = ""
    uuid: str = ""
    index: int | None = None
    limit_s: float


def has_no_gpu(code: int, gpus_on_bus: Sequence[str] | None) -> bool:
    """This machine has nothing of the kind: neither a driver nor, as far as can be seen, a GPU."""
    return code in _NO_DRIVER and not gpus_on_bus


def refused(code: int, call: str, gpus_on_bus: Sequence[str] | None, at: datetime) -> tuple[Observation, ...]:
    """NVML said no as a whole.

    Args:
        code: nvmlReturn.
        call: that said it.
        gpus_on_bus: PCI addresses of NVIDIA GPUs; None: sysfs could not be read.
        at: time of the look.
    """
    listed = ",".join((gpus_on_bus or ())[:16])
    attributes = {"nvml_return": code_name(code), **({"gpus_on_bus": listed} if listed else {})}
    number = "an unknown number of" if gpus_on_bus is None else str(len(gpus_on_bus))
    number += " NVIDIA GPUs on the PCI bus"
    check, health = "gpu_driver", Health.BAD
    if code == NvmlCode.LIB_RM_VERSION_MISMATCH:
        check = "driver_mismatch"
        detail = (
            "the NVML library and the loaded driver are of different versions: the driver was upgraded under this "
            "process. Restart the agent, or its container, with the new library; no GPU is at fault"
        )
    elif code == NvmlCode.DRIVER_NOT_LOADED:
        detail = f"{number}, and the NVIDIA driver is not loaded"
    elif code == NvmlCode.LIBRARY_NOT_FOUND:
        health = Health.UNKNOWN  # the driver may work; this process was not given its library
        detail = (
            f"{number}, and libnvidia-ml.so.1 cannot be loaded: install the driver's user space, or in a container set "
            "NVIDIA_DRIVER_CAPABILITIES=utility"
        )
    elif code == NvmlCode.GPU_IS_LOST:
        detail = f"{call} says that a GPU is lost, and gives access to none"
    else:
        detail = f"{call} failed: NVML says {code_name(code)}"
    return (_of_driver(check, health, detail, at, attributes),)


def works(driver_version: str, nvml_version: str, at: datetime) -> tuple[Observation, ...]:
    """NVML answers; what may have been bad before is good."""
    attributes = {"driver_version": driver_version, "nvml_version": nvml_version}
    told = {name: text for name, text in attributes.items() if text}
    return (
        _of_driver("gpu_driver", Health.OK, f"driver {driver_version or 'of unknown version'} answers", at, told),
        _of_driver("driver_mismatch", Health.OK, "library and driver are of the same version", at, told),
    )


def hangs(found: Sequence[Hang], children_left: int, at: datetime) -> Iterator[Observation]:
    """Calls that did not come back: of one GPU each, or of the driver."""
    values = {"children_left": float(children_left)}
    for hang in found:
        place = {"pci_bus_id": hang.pci_bus_id, "index": "" if hang.index is None else str(hang.index)}
        whole = hang.index is None
        what = "NVML as a whole does not answer" if whole else f"a call for GPU {hang.index} did not come back"
        left = f"; {children_left} reading processes hang in the driver and cannot be killed" if children_left else ""
        yield Observation(
            component=Component.DRIVER if whole else Component.GPU,
            component_id="" if whole else hang.uuid or hang.pci_bus_id or f"gpu{hang.index}",
            check="nvml_hang",
            health=Health.BAD,
            detail=f"{what} within {hang.limit_s:g} s{left}",
            values=values,
            attributes={name: text for name, text in place.items() if text},
            observed_at=at,
        )


def exhausted(children_left: int, at: datetime) -> Observation:
    """No further process is started, because those before hang in the driver."""
    detail = (
        f"{children_left} processes that read NVML hang in the driver and cannot be killed; no further one is started "
        "until one of them ends"
    )
    return _of_driver("nvml_hang", Health.BAD, detail, at, {}, {"children_left": float(children_left)})


def answers(components: Sequence[tuple[str, str]], at: datetime) -> Iterator[Observation]:
    """GPUs (component_id, pci_bus_id) and the driver came back in time."""
    yield _of_driver("nvml_hang", Health.OK, "NVML answers in time", at, {})
    for component_id, pci_bus_id in components:
        yield Observation(
            component=Component.GPU,
            component_id=component_id,
            check="nvml_hang",
            health=Health.OK,
            detail="calls for the GPU come back in time",
            attributes={"pci_bus_id": pci_bus_id} if pci_bus_id else {},
            observed_at=at,
        )


def _of_driver(
    check: str,
    health: Health,
    detail: str,
    at: datetime,
    attributes: dict[str, str],
    values: dict[str, float] | None = None,
) -> Observation:
    return Observation(
        component=Component.DRIVER,
        check=check,
        health=health,
        detail=detail,
        values=values or {},
        attributes=attributes,
        observed_at=at,
    )

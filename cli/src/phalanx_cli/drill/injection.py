"""What each drill writes: keys of the fake library, lines of the kernel log, files of a made-up sysfs; and to what end.

Pure: the present content of the control file goes in, the changes come out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from phalanx_cli.drill.fake_state import Values
from phalanx_cli.drill.xid_lines import Gpu, recovery_line, sxid_line, xid_lines

XID_EVENT = 0x8
NODE_REBOOT, GPU_RESET = 2, 1
LIBRARY_MISMATCH = 18
HANG_MS = 3_600_000
"""An hour: longer than any drill, and it ends with the key."""
BROKEN_CELSIUS = 95
NVLINK_ERRORS = 500


class Kind(StrEnum):
    """What can be injected."""

    XID = "xid"
    SXID = "sxid"
    ECC = "ecc"
    ROW_REMAP = "row-remap"
    THERMAL = "thermal"
    NVLINK = "nvlink"
    PCIE = "pcie"
    NIC = "nic"
    GPU_LOST = "gpu-lost"
    HANG = "hang"
    RECOVERY_ACTION = "recovery-action"
    MISMATCH = "mismatch"
    KMSG = "kmsg"
    CLEAR = "clear"


class Witness(StrEnum):
    """Who tells an Xid."""

    KERNEL = "kernel"
    NVML = "nvml"
    BOTH = "both"


class BadDrill(Exception):
    """The order cannot be carried out; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for."""

    kind: Kind
    value: str = ""
    gpu: Gpu
    message: str = ""
    pid: int | None = None
    process: str = ""
    link: int = 0
    witness: Witness = Witness.KERNEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """What to write.

    Attributes:
        state: keys of the fake library's control file.
        state_may_lack: without a fake library the rest still makes sense.
        kernel: lines of the kernel log.
        files: below the node's /sys, with their new content.
        expect: what should come of it.
    """

    state: Mapping[str, object] = field(default_factory=dict)
    state_may_lack: bool = False
    kernel: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    expect: str


def plan(order: Order, state: Values) -> Injection:
    """The writes of an order; `clear` has none.

    Raises:
        BadDrill: its value makes no sense.
    """
    return _PLANS[order.kind](order, state)


def gpu_of(state: Values, index: int) -> Gpu:
    """Who the fake library's GPU is; as fake_nvml.c makes it up.

    Raises:
        BadDrill: there is no such GPU.
    """
    count, node = _number(state, "sys.count", 8), _number(state, "sys.node", 0)
    if not 0 <= index < count:
        raise BadDrill(f"there is no GPU {index}: the node has {count}, counted from 0")
    bus = _number(state, f"{index}.pci_bus", 0x10 + index)
    return Gpu(
        index=index,
        pci_bus_id=f"0000:{bus:02x}:00",
        uuid=state.get(f"{index}.uuid", f"GPU-{node:08x}-0000-4000-8000-{index:012d}"),
        serial=state.get(f"{index}.serial", f"165{node % 100_000:05d}{index:05d}"),
    )


def _number(state: Values, key: str, otherwise: int) -> int:
    return int(state.get(key, str(otherwise)), 0)


def _value(order: Order, otherwise: int | None = None) -> int:
    if not order.value and otherwise is not None:
        return otherwise
    try:
        return int(order.value, 0)
    except ValueError:
        raise BadDrill(f"{order.kind.value} needs a number, not {order.value!r}") from None


def _choice(order: Order, *choices: str) -> str:
    chosen = order.value or choices[0]
    if chosen not in choices:
        raise BadDrill(f"{order.kind.value} is {' or '.join(choices)}, not {chosen!r}")
    return chosen


def _named(order: Order) -> str:
    return f"GPU {order.gpu.index} ({order.gpu.uuid}, {order.gpu.pci_bus_id})"


def _xid(order: Order, state: Values) -> Injection:
    code, index = _value(order), order.gpu.index
    if not 1 <= code <= 999:
        raise BadDrill(f"an Xid is a number from 1 to 999, not {code}")
    # What a look through NVML shows after such an Xid.
    shown: dict[str, object] = {}
    if code == 79:
        shown = {f"{index}.lost": 1}
    elif code == 63:
        shown = {f"{index}.remap_pending": 1}
    elif code == 64:
        shown = {f"{index}.remap_failure": 1}
    elif code in (48, 94, 95):
        key = f"{index}.ecc_volatile_uncorrected"
        shown = {key: _number(state, key, 0) + 1}
    if order.witness is not Witness.KERNEL:
        shown |= {f"{index}.event_type": XID_EVENT, f"{index}.event_data": code}
        shown[f"{index}.event_seq"] = _number(state, f"{index}.event_seq", 0) + 1
    lines: list[str] = []
    if order.witness is not Witness.NVML:
        lines = xid_lines(order.gpu, code, message=order.message, pid=order.pid, process=order.process)
    lost = "; and gpu_lost at the next look" if code == 79 else ""
    return Injection(
        state=shown,
        state_may_lack=order.witness is Witness.KERNEL,
        kernel=tuple(lines),
        expect=f"the signal xid_{code} of {_named(order)} within seconds{lost}",
    )


def _sxid(order: Order, _: Values) -> Injection:
    code = _value(order)
    line = sxid_line(code, message=order.message)
    return Injection(kernel=(line,), expect=f"the signal sxid_{code:05d} of an NVSwitch within seconds")


def _ecc(order: Order, state: Values) -> Injection:
    kind, index = _choice(order, "uncorrected", "corrected"), order.gpu.index
    volatile, aggregate = f"{index}.ecc_volatile_{kind}", f"{index}.ecc_aggregate_{kind}"
    raised = {key: _number(state, key, 0) + 1 for key in (volatile, aggregate)}
    grave = "is bad once, and good again at the look after it" if kind == "uncorrected" else "counts it and stays ok"
    return Injection(state=raised, expect=f"at the next full look (30 s) gpu_ecc_{kind} of {_named(order)} {grave}")


def _row_remap(order: Order, _: Values) -> Injection:
    what, index = _choice(order, "pending", "failure"), order.gpu.index
    code = 63 if what == "pending" else 64
    return Injection(
        state={f"{index}.remap_{what}": 1},
        kernel=tuple(xid_lines(order.gpu, code, message=order.message)),
        expect=f"xid_{code} of {_named(order)} within seconds, gpu_row_remap_{what} bad at the next full look (30 s)",
    )


def _thermal(order: Order, _: Values) -> Injection:
    celsius, index = _value(order, BROKEN_CELSIUS), order.gpu.index
    if not 0 <= celsius <= 150:
        raise BadDrill(f"{celsius} °C is no temperature of a GPU")
    state: dict[str, object] = {f"{index}.temperature": celsius, f"{index}.clock_reasons": "0x48"}
    if celsius < 89:
        state[f"{index}.clock_reasons"] = "0x0"
        expect = f"gpu_temperature of {_named(order)} reads {celsius} °C; below its limit only its peers can tell"
    else:
        expect = f"gpu_temperature and gpu_hw_thermal of {_named(order)} are bad at the next look (5 s)"
    return Injection(state=state, expect=expect)


def _nvlink(order: Order, state: Values) -> Injection:
    what, index = _choice(order, "down", "errors"), order.gpu.index
    if not 0 <= order.link <= 17:
        raise BadDrill(f"there is no NVLink {order.link}: 0 to 17")
    if what == "down":
        changes: dict[str, object] = {f"{index}.nvlink{order.link}_down": 1}
        told = "nvlink_state"
    else:
        key = f"{index}.nvlink{order.link}_replay"
        changes, told = {key: _number(state, key, 0) + NVLINK_ERRORS}, "nvlink_errors"
    return Injection(
        state=changes, expect=f"{told} of {_named(order)} names link {order.link} at the next full look (30 s)"
    )


def _pcie(order: Order, _: Values) -> Injection:
    lanes = _value(order, 8)
    return Injection(
        state={f"{order.gpu.index}.pcie_width": lanes},
        expect=f"gpu_pcie_width of {_named(order)} is bad at the next full look (30 s)",
    )


def _nic(order: Order, _: Values) -> Injection:
    name = order.value or "eth0"
    if not name.replace("_", "").replace("-", "").replace(".", "").isalnum() or len(name) > 15:
        raise BadDrill(f"{name!r} is no name of an interface")
    line = order.message or f"mlx5_core 0000:5e:00.0 {name}: Link down"
    return Injection(
        kernel=(line,),
        files={f"class/net/{name}/operstate": "down\n", f"class/net/{name}/carrier": "0\n"},
        expect=f"a signal of the link of {name} within seconds; nic_link is bad where the node's /sys is a drill's own",
    )


def _gpu_lost(order: Order, _: Values) -> Injection:
    return Injection(
        state={f"{order.gpu.index}.lost": 1},
        expect=f"gpu_lost of {_named(order)} is bad at the next look (5 s); the kernel log says nothing (see xid 79)",
    )


def _hang(order: Order, _: Values) -> Injection:
    return Injection(
        state={f"{order.gpu.index}.slow_ms": HANG_MS},
        expect=f"nvml_hang of {_named(order)} after the look's limit (10 s); the other GPUs are read as before",
    )


def _recovery_action(order: Order, state: Values) -> Injection:
    value, key = _value(order, GPU_RESET), f"{order.gpu.index}.recovery_action"
    before = _number(state, key, 0)
    return Injection(
        state={key: value},
        state_may_lack=True,
        kernel=(recovery_line(order.gpu, before, value),),
        expect=f"xid_154 within seconds and gpu_recovery_action of {_named(order)} at the next look (5 s)",
    )


def _mismatch(_order: Order, _: Values) -> Injection:
    return Injection(
        state={"sys.init_err": LIBRARY_MISMATCH, "sys.err.nvmlDeviceGetCount_v2": LIBRARY_MISMATCH},
        expect="driver_mismatch is bad at the next full look (30 s), and no GPU is blamed",
    )


def _kmsg(order: Order, _: Values) -> Injection:
    text = order.value or order.message
    if not text:
        raise BadDrill("kmsg needs the text of a line")
    return Injection(kernel=(text,), expect="what the kernel log's reader makes of this line")


_PLANS: dict[Kind, Callable[[Order, Values], Injection]] = {
    Kind.XID: _xid,
    Kind.SXID: _sxid,
    Kind.ECC: _ecc,
    Kind.ROW_REMAP: _row_remap,
    Kind.THERMAL: _thermal,
    Kind.NVLINK: _nvlink,
    Kind.PCIE: _pcie,
    Kind.NIC: _nic,
    Kind.GPU_LOST: _gpu_lost,
    Kind.HANG: _hang,
    Kind.RECOVERY_ACTION: _recovery_action,
    Kind.MISMATCH: _mismatch,
    Kind.KMSG: _kmsg,
}

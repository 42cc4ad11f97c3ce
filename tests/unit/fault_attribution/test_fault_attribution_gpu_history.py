"""What came again on a device."""

from __future__ import annotations

from fault_attribution.derive.gpu_history import gpu_history
from fault_attribution.finding import Finding, Role

_SM = {"gpc": "2", "tpc": "5", "sm": "0"}


def _seen(
    kind: str, number: int = 1, *, node: str = "n1", device: str = "0000:84:00", process: str = "",
    at_s: float | None = None, text: str = "", rank: int | None = None, **captures: str,
) -> Finding:  # fmt: skip
    return Finding(
        finding_id=f"{kind}:{node}:{number}", kind=kind, role=Role.CAUSE, node=node, device=device, process=process,
        captures=captures, text=text or f"line {number}", stream="s", number=number, at_s=at_s, rank=rank,
    )  # fmt: skip


def _kinds(*findings: Finding) -> set[str]:
    return {each.kind for each in gpu_history(findings)}


def test_the_same_sm_under_two_processes_is_the_gpu() -> None:
    again = _kinds(_seen("xid_13", 1, process="10", **_SM), _seen("xid_13", 2, process="20", **_SM))
    assert "same_sm_again" in again
    assert "sm_varies" not in again


def test_one_process_that_traps_twice_within_a_minute_proves_nothing() -> None:
    found = _kinds(_seen("xid_13", 1, process="10", at_s=0, **_SM), _seen("xid_13", 2, process="10", at_s=1, **_SM))
    assert not {"same_sm_again", "fault_again"} & found


def test_other_sms_or_gpus_speak_for_the_program() -> None:
    other = {**_SM, "sm": "1"}
    assert "sm_varies" in _kinds(_seen("xid_13", 1, process="10", **_SM), _seen("xid_13", 2, process="10", **other))
    assert "sm_varies" in _kinds(_seen("xid_13", 1, **_SM), _seen("xid_13", 2, device="0000:85:00", **_SM))


def test_a_fault_comes_again_on_the_same_device_or_rank_only() -> None:
    first, later = _seen("xid_79", 1, at_s=0), _seen("xid_79", 2, at_s=3_600)
    assert "fault_again" in _kinds(first, later)
    assert "fault_again" not in _kinds(first, _seen("xid_79", 2, at_s=3_600, device="0000:85:00"))
    one = _seen("gpu_ecc_uncorrected", 1, device="", rank=0, at_s=0)
    assert "fault_again" in _kinds(one, _seen("gpu_ecc_uncorrected", 2, device="", rank=0, at_s=86_400))
    assert "fault_again" not in _kinds(one, _seen("gpu_ecc_uncorrected", 2, device="", rank=1, at_s=86_400))


def test_registers_of_an_xid_74() -> None:
    def of(r1: str, r4: str = "0x0") -> set[str]:
        captures = {"r1": r1, "r2": "0x0", "r3": "0x0", "r4": r4, "r5": "0x0", "link": "3"}
        return _kinds(_seen("xid_74", **captures)) & {"nvlink_ignorable", "nvlink_peer_end", "nvlink_hard"}

    assert of("0x800000") == {"nvlink_ignorable"}
    assert of("0x100000") == {"nvlink_peer_end"}
    assert of("0x0", "0x10000") == {"nvlink_peer_end"}
    assert of("0x800010") == {"nvlink_hard"}
    assert of("0x0") == {"nvlink_hard"}
    assert of("what") == set()


def test_a_link_with_events_of_two_kinds_told_of_errors_before() -> None:
    before, now = _seen("xid_145", 1, link="14", severity="Nonfatal"), _seen("xid_149", 2, link="14", severity="Fatal")
    assert {"same_link_again", "gpu_evidence"} <= _kinds(before, now)
    assert "same_link_again" not in _kinds(before, _seen("xid_149", 2, link="15", severity="Fatal"))


def test_a_fault_from_before_the_start_is_stale() -> None:
    start = _seen("fabric_manager_started", 1, text="2031-07-04T03:39:35+00:00 systemd: Started")
    old = _seen("sxid_23001", 2, text="[2031-06-30T03:40:15+00:00] nvidia-nvswitch0: SXid", severity="Fatal")
    new = _seen("sxid_23001", 2, text="[2031-07-04T04:40:15+00:00] nvidia-nvswitch0: SXid", severity="Fatal")
    assert "stale_fault" in _kinds(start, old)
    assert "stale_fault" not in _kinds(start, new)
    assert "stale_fault" not in _kinds(_seen("fabric_manager_started", 1, node="n2", text=start.text), old)


def test_one_address_under_two_processes() -> None:
    found = _kinds(_seen("xid_31", 1, process="1", address="0x7f"), _seen("xid_31", 2, process="2", address="0x7f"))
    assert "same_address_again" in found
    assert "same_address_again" not in _kinds(_seen("xid_31", 1, process="1", address="0x7f"))

"""Does a listed device come back under another name? Nodes handed over by a cloud, judged by the ledger's own code.

Each return brings a node of a new name. Some carry a board that was given back before: under its uuid, or under a new
one with the old serial. What is in the node is compared with the ledger as health-ingest does it, before any work.
"""

from __future__ import annotations

from dataclasses import dataclass

from fault_contracts.hardware import Hold, LedgerEntry, NodeStanding, Strike
from fault_contracts.inventory import DeviceIdentity, DeviceKind, InventoryReported
from fault_contracts.payload import Health
from health_ingest.domain.ledger import LedgerPolicy, pass_time, seen, strike
from health_ingest.domain.node_standing import NodeState, inventoried
from phalanx_cli.simulate.draws import Draws
from phalanx_cli.simulate.listing import at

BACK_SHARE = 0.3
"""Of nodes handed over, with a board that was listed before. High on purpose: this is a search for a hole."""
BREAKS_SHARE = 0.2
"""Of those admitted, that fail and are listed."""
FLASHED_SHARE = 0.5
"""Of the boards that come back, under another uuid."""
EVERY_S = 600.0
VENDOR = "10de:2330:10de:16c1"


@dataclass(slots=True)
class Returns:
    """What happened."""

    returns: int = 0
    admitted: int = 0
    refused: int = 0
    listed: int = 0
    listed_brought: int = 0
    readmitted: int = 0
    """Listed boards that were let to work. Must be 0."""


@dataclass(frozen=True, slots=True)
class _Board:
    serial: str
    uuid: str


class _Ledger:
    """Entries by uuid, and the index by board, as the buckets of health-ingest hold them."""

    def __init__(self) -> None:
        self.entries: dict[str, LedgerEntry] = {}
        self.by_board: dict[tuple[str, str], str] = {}

    def of(self, device: DeviceIdentity) -> LedgerEntry | None:
        """Under its uuid, else as the board that it is."""
        name = device.device_id
        if name not in self.entries:
            name = self.by_board.get((device.board_serial, device.pci_vendor_data), name)
        return self.entries.get(name)

    def keep(self, entry: LedgerEntry) -> None:
        """Save."""
        self.entries[entry.device_id] = entry
        if entry.board_serial and entry.pci_vendor_data:
            self.by_board[entry.board_serial, entry.pci_vendor_data] = entry.device_id


def hand_over(count: int, seed: int) -> Returns:
    """Hand so many nodes over, one after another."""
    draws, ledger, policy, tally = Draws(f"returns {seed}"), _Ledger(), LedgerPolicy(), Returns()
    bad: list[_Board] = []
    truly_bad: set[str] = set()
    for number in range(count):
        now_s = number * EVERY_S
        board = _Board(serial=f"serial-{number}", uuid=f"GPU-{number}")
        if bad and draws.share() < BACK_SHARE:
            board = bad[draws.below(len(bad))]
            if draws.share() < FLASHED_SHARE:
                board = _Board(serial=board.serial, uuid=f"GPU-{number}")
        tally.returns += 1
        tally.listed_brought += board.serial in truly_bad
        if not _admitted(ledger, policy, board, f"cloud-{number}", now_s):
            tally.refused += 1
            continue
        tally.admitted += 1
        tally.readmitted += board.serial in truly_bad
        if draws.share() < BREAKS_SHARE:
            _breaks(ledger, policy, board, f"cloud-{number}", now_s)
            bad.append(board)
            truly_bad.add(board.serial)
            tally.listed += 1
    return tally


def _identity(board: _Board) -> DeviceIdentity:
    return DeviceIdentity(kind=DeviceKind.GPU, device_id=board.uuid, board_serial=board.serial, pci_vendor_data=VENDOR)


def _admitted(ledger: _Ledger, policy: LedgerPolicy, board: _Board, node: str, now_s: float) -> bool:
    now, device = at(now_s), _identity(board)
    entry = ledger.of(device)
    if entry is not None:
        entry = pass_time(entry, now=now, policy=policy).entry
        entry = seen(entry, device, node_id=node, seen_at=now, now=now).entry
        ledger.keep(entry)
    report = InventoryReported(node_id=node, instance_id=node, devices=(device,), reported_at=now)
    entries = () if entry is None else (entry,)
    state = inventoried(NodeState(standing=NodeStanding(node_id=node)), report, entries, now=now)
    return state.standing.fit is not Health.BAD


def _breaks(ledger: _Ledger, policy: LedgerPolicy, board: _Board, node: str, now_s: float) -> None:
    now, device = at(now_s), _identity(board)
    entry = ledger.of(device) or LedgerEntry(
        device_id=board.uuid, kind=DeviceKind.GPU, board_serial=board.serial, pci_vendor_data=VENDOR
    )
    blow = Strike(
        evidence_id=f"failure-{node}", node_id=node, check="gpu_row_remap_failure", reason="failed", struck_at=now
    )
    ledger.keep(strike(entry, blow, replaces=True, now=now, policy=policy).entry)
    assert ledger.entries[entry.device_id].hold is Hold.QUARANTINED

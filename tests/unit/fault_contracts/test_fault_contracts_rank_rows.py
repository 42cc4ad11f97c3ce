"""A start carries its rows readable or packed, and who reads it need not care."""

from datetime import UTC, datetime

import pytest

from fault_contracts.commands import StartWorkers
from fault_contracts.payload import Fence
from fault_contracts.rank_rows import rows_of
from fault_contracts.recovery import NodeAssignment
from fault_contracts.recovery_level import RecoveryLevel
from training_topology.identity import NodeId, NodeRank
from training_topology.packed_rows import pack_rows
from training_topology.topology import NodeRow

ROW = NodeRow(node_rank=NodeRank(0), node_id=NodeId("a"), address="a.example", nproc=8)


def start(**fields: object) -> StartWorkers:
    return StartWorkers.model_validate(
        {
            "job_id": "job",
            "fence": Fence(topology_version=1, attempt=0, incident_id="", epoch=1),
            "operation_id": "op",
            "expires_at": datetime(2030, 1, 1, tzinfo=UTC),
            "base_version": 0,
            "nnodes": 1,
            "world_size": 8,
            "master_addr": "a.example",
            "master_port": 29_500,
            "restart_count": 0,
            "level": RecoveryLevel.PROCESS,
            **fields,
        }
    )


def test_both_ways_give_the_same_rows() -> None:
    readable = NodeAssignment(node_rank=0, node_id="a", address="a.example", nproc=8)
    assert rows_of(start(rows=(readable,))) == (ROW,)
    assert rows_of(start(rows_packed=pack_rows([ROW]))) == (ROW,)
    assert rows_of(start()) == ()


def test_damage_is_said() -> None:
    with pytest.raises(ValueError, match="damaged"):
        rows_of(start(rows_packed="!"))

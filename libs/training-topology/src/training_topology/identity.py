"""Names and indices that must never be used for one another."""

from __future__ import annotations

from typing import NewType

JobId = NewType("JobId", str)
NodeId = NewType("NodeId", str)
GpuUuid = NewType("GpuUuid", str)
Rank = NewType("Rank", int)
"""Global rank: an index from 0 to world_size - 1."""
LocalRank = NewType("LocalRank", int)
NodeRank = NewType("NodeRank", int)
"""Index of a node in the gang (torchrun's GROUP_RANK)."""

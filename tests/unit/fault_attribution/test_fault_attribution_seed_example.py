"""The seed's example: time-outs of NCCL that look like a network fault, caused by a data loader that stalls."""

from __future__ import annotations

import random

import pytest

from fault_attribution.engine import Engine
from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.loading.rule_files import load_rules
from fault_contracts.faults import Action, Attribution

RANKS = 16
STALLED = 11
TIMEOUT = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4410, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing out."
)
CLOSED = "misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer host-3<48230>"


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(load_rules())


def line(rank: int, text: str, source: Source = Source.WORKER_STDERR) -> EvidenceLine:
    return EvidenceLine(
        text=text, source=source, node=f"host-{rank // 4}", rank=rank, stream=f"{source}/{rank}", number=1
    )


def incident(*stalled: EvidenceLine) -> list[EvidenceLine]:
    waiting = [line(rank, TIMEOUT.format(rank=rank)) for rank in range(RANKS) if rank != STALLED]
    victims = [line(rank, CLOSED, Source.WORKER_STDOUT) for rank in (0, 5, 8)]
    exits = [line(rank, "failed (exitcode: -6) local_rank: 0 (pid: 41)", Source.EXIT) for rank in (0, 4)]
    return [*waiting, *victims, *exits, *stalled]


@pytest.mark.parametrize(
    "told",
    [
        "dataset.__getitem__ took 640 s on shard 17",
        "DataLoader stalled: queue is empty",
        '  File "/opt/torch/utils/data/dataloader.py", line 701, in _next_data',
    ],
)
def test_a_stalled_loader_is_the_users_and_no_machine_is_touched(engine: Engine, told: str) -> None:
    lines = incident(line(STALLED, told))
    for seed in range(3):
        random.Random(seed).shuffle(lines)
        judged = engine.diagnose(lines).judgement
        assert (judged.attribution, judged.cause) == (Attribution.USER, "dataloader_stall")
        assert judged.action is Action.DONT_RETRY_NOTIFY_USER
        assert judged.culprit.rank == STALLED


def test_the_time_outs_alone_blame_nobody(engine: Engine) -> None:
    judged = engine.diagnose(incident()).judgement
    assert judged.attribution is Attribution.UNKNOWN
    assert judged.action in (Action.RESTART_JOB, Action.RESTART_PROCESS)


def test_a_storage_that_hangs_is_not_the_users_loader(engine: Engine) -> None:
    hung = EvidenceLine(
        text="nfs: server filer01 not responding, timed out", source=Source.KMSG, node="host-2", stream="k", number=1
    )
    lines = incident(line(STALLED, "dataset.__getitem__ took 640 s on shard 17"), hung)
    assert engine.diagnose(lines).judgement.attribution is not Attribution.USER

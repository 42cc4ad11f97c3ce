"""`phalanx run --log-rules`: real ranks print, and what the rules make of it is on the bus."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_process import AgentProcess

from fault_contracts.agent import CheckpointReported, StepReported
from fault_contracts.health import SignalObserved
from fault_contracts.payload import Payload
from fault_contracts.rank_faults import RanksFaulted
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.ports import Delivery
from service_kit.settings import BusSettings

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240), pytest.mark.asyncio]

CLI = [sys.executable, "-P", "-m", "phalanx_cli.main"]
RUN = ["-m", "phalanx_cli.main", "run", "--no-standby"]
TRAIN = """
import os, sys, time
rank = int(os.environ["RANK"])
for step in range(1, 4):
    print(f"step {step} done, loss: {1 / step}", flush=True)
os.makedirs("ckpt", exist_ok=True)
open(f"ckpt/{step}", "w").close()
print(f"saved ckpt/{step} at step {step}", file=sys.stderr, flush=True)
print("waiting", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
if rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.stdout.write("step 4 done, lo"); sys.stdout.flush()
    time.sleep(0.05)
    print("ss: nan", flush=True)
time.sleep(600)
"""
STEPS = """\
rules:
  - {name: step, kind: progress, mode: search, logPattern: 'step (?P<step>\\d+) done'}
  - {name: save, kind: checkpoint, streams: stderr, mode: search,
     logPattern: 'saved (?P<path>\\S+) at step (?P<step>\\d+)'}
  - {name: broken, kind: fault, logPattern: '(unfinished'}
"""
NAN = "  - {name: nan, kind: metric, action: fault, mode: search, logPattern: 'loss: (\\S+)', nonFinite: [nan]}\n"


@pytest.fixture(scope="module")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A developer's stack for all tests of this file."""
    folder = tmp_path_factory.mktemp("stack")
    env = {name: value for name, value in os.environ.items() if name not in ("NATS_URL", "REDIS_URL")}
    subprocess.run([*CLI, "up", "--data-dir", str(folder)], check=True, env=env, capture_output=True, timeout=120)
    yield str(json.loads((folder / "stack.json").read_text())["nats_url"])
    subprocess.run([*CLI, "down", "--data-dir", str(folder)], check=True, env=env, capture_output=True, timeout=60)


class Heard:
    """What reached the bus, as it comes."""

    def __init__(self) -> None:
        self.payloads: list[Payload] = []
        self._news = asyncio.Condition()

    async def handle(self, delivery: Delivery) -> None:
        async with self._news:
            self.payloads.append(delivery.envelope.data)
            self._news.notify_all()

    def of(self, model: type[Payload]) -> list[Payload]:
        return [payload for payload in self.payloads if isinstance(payload, model)]

    async def wait(self, model: type[Payload], count: int = 1) -> list[Payload]:
        async with asyncio.timeout(60), self._news:
            await self._news.wait_for(lambda: len(self.of(model)) >= count)
        return self.of(model)


async def test_a_nan_loss_under_a_rule_that_came_by_reload_reaches_the_bus(tmp_path: Path, nats_url: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    rules = tmp_path / "rules.yaml"
    rules.write_text(STEPS)
    connection = await connect(BusSettings(nats_url=nats_url), name="test")
    bus = JetStreamBus(connection, cluster="local")
    heard = Heard()
    models = [RanksFaulted, StepReported, CheckpointReported, SignalObserved]
    listening = [
        await bus.consume(durable=f"test-{model.__name__}", messages=[model], handler=heard.handle) for model in models
    ]
    try:
        argv = [*RUN, "--nproc-per-node", "2", "--job-id", "nan", "--log-rules", "rules.yaml", "train.py"]
        async with AgentProcess(argv, cwd=tmp_path, env={"NATS_URL": nats_url}) as run:
            await run.wait_line("log rules: 2 in use, 1 refused")
            await run.wait_line("refused: rules.yaml:5: broken: logPattern: the pattern is not accepted")
            await run.wait_line("]: waiting", count=2)
            [monitor, *_] = await heard.wait(SignalObserved)
            assert (monitor.check, monitor.health) == ("log_monitor", "bad")  # type: ignore[attr-defined]
            [first, *_] = await heard.wait(StepReported)
            assert first.first  # type: ignore[attr-defined]
            saved = await heard.wait(CheckpointReported, 2)
            assert {(c.rank, c.step, c.path) for c in saved} == {(0, 3, "ckpt/3"), (1, 3, "ckpt/3")}  # type: ignore[attr-defined]
            rules.write_text(STEPS + NAN)
            run.signal(signal.SIGHUP)
            await run.wait_line("log rules were read again: 3 in use; added: nan")
            (tmp_path / "go").write_text("")
            [fault, *_] = await heard.wait(RanksFaulted)
            await run.wait_line("rank 1 cannot go on (LogSlow_nan)")
            await run.wait_line("verdict: ")
            await run.wait_line("phalanx: restarted ranks 0-1 of 2")
            run.signal(signal.SIGTERM)
            assert await run.exit_code() == 143
    finally:
        for subscription in listening:
            await subscription.stop()
        await connection.close()
    assert len(heard.of(RanksFaulted)) == 1
    assert isinstance(fault, RanksFaulted)
    assert (fault.check, fault.rule_id, [s.rank for s in fault.suspects]) == ("log_rule", "LogSlow_nan", [1])
    evidence = Path(fault.evidence_path)
    assert evidence.parent.name == "attempt_1"
    assert "step 4 done, loss: nan" in (evidence / "excerpt.txt").read_text()
    assert "step 3 done" in (evidence / "rank_1_stdout.log").read_text()
    assert "Traceback" not in run.text


async def test_rules_that_cannot_be_used_at_all_are_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    for name, text, part in (("missing.yaml", None, "No such file"), ("list.yaml", "rules: 3\n", "must be a list")):
        if text is not None:
            (tmp_path / name).write_text(text)
        async with AgentProcess([*RUN, "--log-rules", name, "train.py"], cwd=tmp_path) as run:
            assert await run.exit_code() == 2
        assert f"--log-rules: {tmp_path / name}" in run.text
        assert part in run.text

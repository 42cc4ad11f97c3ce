"""What somebody can do who stole a node's key: every way to a command that we know of, on a real nats-server.

The thief has the launcher's key of n2, not bound to a job. An agent of another node listens as agents do, with the
planner's public key; it must hear the planner and nobody else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import secured
from nats.aio.msg import Msg
from secured import CLUSTER, SecuredServer, sign_in

from fault_contracts.commands import StopWorkers
from fault_contracts.envelope import Envelope
from fault_contracts.permissions import Holder, Role
from fault_contracts.registry import spec_of
from fault_contracts.subjects import Kind
from service_kit.command_signature import HEADER, CommandKeys, signature
from service_kit.errors import NoPermission
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.streams import ensure_streams
from service_kit.ports import Delivery
from service_kit.testing.messages import a_step, a_stop, an_epoch

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]

VICTIM, THIEF = Holder(role=Role.LAUNCHER, node="n1"), Holder(role=Role.LAUNCHER, node="n2")
JOB = "job"
FORGED = 10**6
"""An epoch newer than any."""
CMD = str(spec_of(StopWorkers).subject(CLUSTER, JOB))
GO = spec_of(StopWorkers).pattern(CLUSTER, JOB, kind=Kind.GO)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    path: Path = tmp_path_factory.mktemp("stolen")
    running = SecuredServer(data_dir=path / "nats", folder=secured.make_folder(path, [VICTIM, THIEF]))
    running.start()
    yield running
    running.stop()


class Scene:
    """A planner that leads, an agent that listens, and a thief."""

    def __init__(self, server: SecuredServer, planner: Connection, agent: Connection, thief: Connection) -> None:
        keys = CommandKeys(server.folder.path / "command-keys")
        self.planner, self.thief = planner, thief
        self.planner_bus = JetStreamBus(planner, cluster=CLUSTER)
        self.agent_bus = JetStreamBus(agent, cluster=CLUSTER, command_keys=keys)
        self.heard: list[Envelope[StopWorkers]] = []
        self.news = asyncio.Event()
        self.epoch = 0

    async def begin(self) -> None:
        async def hear(delivery: Delivery) -> None:
            self.heard.append(delivery.envelope)
            self.news.set()

        self.epoch = await self.planner_bus.take_epoch(an_epoch())
        await self.agent_bus.listen(messages=[StopWorkers], handler=hear, key=JOB)

    async def command(self, number: int) -> Envelope[StopWorkers]:
        order = a_stop(self.epoch, number, job_id=JOB)
        await self.planner_bus.publish(order, epoch=self.epoch)
        return order

    async def heard_in_the_end(self, number: int) -> list[str]:
        """Everything that the agent heard before the planner's next command."""
        last = await self.command(number)
        async with asyncio.timeout(10):
            while last.id not in {each.id for each in self.heard}:
                await self.news.wait()
                self.news.clear()
        return [each.id for each in self.heard if each.id != last.id]


@pytest_asyncio.fixture
async def scene(server: SecuredServer) -> AsyncIterator[Scene]:
    lines = [await sign_in(server, who) for who in (Role.RECOVERY_PLANNER, VICTIM, THIEF)]
    await ensure_streams(lines[0], secured.settings_of(server, "recovery-planner"))
    made = Scene(server, *lines)
    await made.begin()
    yield made
    for line in lines:
        await line.close()


def forged() -> bytes:
    return a_stop(FORGED, job_id=JOB).to_bytes()


async def test_it_cannot_publish_a_command_nor_where_agents_listen(scene: Scene) -> None:
    for subject in (CMD, GO):
        await scene.thief.client.publish(subject, forged())
    await scene.thief.settle()
    with pytest.raises(NoPermission):
        scene.thief.denials.raise_if_denied(CMD, "a command")
    with pytest.raises(NoPermission):
        scene.thief.denials.raise_if_denied(GO, "where agents listen")
    assert await scene.heard_in_the_end(1) == []


async def test_the_reply_subject_of_a_request_carries_nothing_of_its_own_there(scene: Scene) -> None:
    """The server answers where a request says, with its own permissions: acknowledgements and stored messages."""
    mine = str(a_step(1, node_id="n2").channel(CLUSTER))
    await scene.thief.client.publish(mine, forged(), reply=GO)  # the acknowledgement of a stored event
    order = await scene.command(2)
    get = f"$JS.API.DIRECT.GET.CONTROL.{CMD}"
    await scene.thief.client.publish(get, b"", reply=GO)  # an old command, heard again
    await scene.thief.client.publish(f"$JS.API.DIRECT.GET.AGENTS.{mine}", b"", reply=GO)  # its own event: denied
    await scene.thief.settle()
    heard = await scene.heard_in_the_end(3)
    assert set(heard) <= {order.id}, "a copy of what the planner said, which the fence knows; nothing else"


async def test_who_answers_does_not_say_for_the_asker_what_the_asker_may_not(scene: Scene) -> None:
    async def reply(_: bytes) -> bytes:
        return forged()

    asked: list[bytes] = []

    async def note(body: bytes) -> bytes:
        asked.append(body)
        return await reply(body)

    await scene.planner_bus.answer(what="planner", key="leader", reply=note)
    for subject in (CMD, GO, f"$KV.gangs.{CLUSTER}.{JOB}", "$JS.API.STREAM.PURGE.CONTROL"):
        await scene.thief.client.publish("phx.ask.planner.asked.v1.safe.leader", b"", reply=subject)
    await scene.thief.settle()
    thief_bus = JetStreamBus(scene.thief, cluster=CLUSTER)
    assert await thief_bus.ask(what="planner", key="leader", timeout_s=5) == forged(), "an inbox is answered"
    assert len(asked) == 1, "the others were not even looked at"
    assert await scene.heard_in_the_end(4) == []


async def test_it_cannot_answer_in_the_planners_place_nor_into_its_inbox(scene: Scene) -> None:
    thief_bus = JetStreamBus(scene.thief, cluster=CLUSTER)

    async def lie(_: bytes) -> bytes:
        return json.dumps({"admitted": True, "reason": "a lie"}).encode()

    for what, key in (("planner", "leader"), ("admission", JOB), ("tend", "leader"), ("ping", "n1")):
        with pytest.raises(NoPermission):
            await thief_bus.answer(what=what, key=key, reply=lie)
    inbox = scene.planner.inbox()
    got: list[Msg] = []

    async def take(msg: Msg) -> None:
        got.append(msg)

    await scene.planner.subscribed(await scene.planner.client.subscribe(inbox, cb=take))
    await scene.thief.client.publish(inbox, b"an answer that nobody asked for")
    await scene.thief.settle()
    await scene.planner.settle()
    assert got == []


async def test_past_the_servers_permissions_the_signature_still_stands(scene: Scene, server: SecuredServer) -> None:
    """As if the permissions were wrong: the planner's own connection carries what the thief made."""
    thief_key = scene.thief.identity
    assert thief_key is not None
    forgeries: list[dict[str, str]] = [
        {},
        {HEADER: signature(thief_key.key, CMD, forged())},
        {HEADER: f"{(await planner_key(server))} {signature(thief_key.key, CMD, forged()).split()[1]}"},
    ]
    for headers in forgeries:
        await scene.planner.client.publish(CMD, forged(), headers={**headers, "Nats-Msg-Id": str(headers)})
    await scene.planner.settle()
    assert await scene.heard_in_the_end(5) == []
    for each in forgeries:
        await scene.planner.client.publish(CMD, forged(), headers={**each, "Nats-Msg-Id": f"again {each}"})
    await scene.planner.settle()
    [newest] = await scene.agent_bus.last_commands(key=JOB, messages=[StopWorkers]) or [None]
    assert newest is None or newest.envelope.data.fence.epoch != FORGED


async def planner_key(server: SecuredServer) -> str:
    return server.folder.ring().entry("recovery-planner").keys[0].public

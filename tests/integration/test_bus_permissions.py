"""Every message of the registry, every question and JetStream's own API, tried as every role on a real nats-server.

What is expected is told here from the registry's words and a few sentences, not from the lists that are tested.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
import secured
from secured import CLUSTER, SecuredServer, sign_in

from fault_contracts.asks import ASKS
from fault_contracts.envelope import Envelope, seal
from fault_contracts.inventory import InventoryReported
from fault_contracts.permissions import Holder, Role
from fault_contracts.registry import MESSAGES, STREAMS, Bucket, MessageSpec
from fault_contracts.subjects import Kind
from phalanx_cli.security.check import check_identity
from service_kit.bus_access import DURABLES, WRITES
from service_kit.errors import BusUnavailable, NoPermission, PermanentError
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.streams import ensure_streams

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.integration]

HOST = Holder(role=Role.HOST, node="n1")
LAUNCHER = Holder(role=Role.LAUNCHER, node="n1")
BOUND = Holder(role=Role.LAUNCHER, node="n1", job="j1")
SHARED = Holder(role=Role.HOST)
SERVICES = [Holder(role=role) for role in Role if role not in (Role.HOST, Role.LAUNCHER)]
HOLDERS = [*SERVICES, HOST, LAUNCHER, BOUND, SHARED]

HOST_SAYS = {"signals_observed", "inventory_reported", "devices", "node_action_reported"}
BOTH_SAY = {"signal_observed"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    path: Path = tmp_path_factory.mktemp("secured")
    folder = secured.make_folder(path, [HOST, LAUNCHER, BOUND, SHARED])
    running = SecuredServer(data_dir=path / "nats", folder=folder)
    running.start()
    yield running
    running.stop()


class Tried:
    """Publishes and subscriptions as one identity; tells which the server denied."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._denied: set[tuple[bool, str]] = set()
        connection.denials.on_denial(lambda subject, text: self._denied.add(("for publish" in text.lower(), subject)))

    async def publishes(self, subjects: list[str]) -> set[str]:
        for subject in subjects:
            await self.connection.client.publish(subject, b"tried")
        await self.connection.settle()
        return {subject for subject in subjects if (True, subject.lower()) not in self._denied}

    async def hears(self, subjects: list[str]) -> set[str]:
        async def drop(_: object) -> None:
            return

        there = [await self.connection.client.subscribe(subject, cb=drop) for subject in subjects]
        await self.connection.settle()
        for each in there:
            await each.unsubscribe()
        return {subject for subject in subjects if (False, subject.lower()) not in self._denied}


@pytest_asyncio.fixture(loop_scope="module", params=HOLDERS, ids=lambda holder: holder.name)
async def tried(server: SecuredServer, request: pytest.FixtureRequest) -> AsyncIterator[tuple[Tried, Holder]]:
    connection = await sign_in(server, request.param)
    yield Tried(connection), request.param
    await connection.close()


def says(holder: Holder, spec: MessageSpec) -> bool:
    """Whether this kind of process sends the message at all."""
    senders = {spec.sender, *spec.also_senders}
    if spec.name == "dead_lettered":
        return holder.role not in (Role.CONSOLE, Role.CLI)
    if holder.role is Role.HOST:
        return "node-agent" in senders and spec.name in HOST_SAYS | BOTH_SAY
    if holder.role is Role.LAUNCHER:
        return "node-agent" in senders and spec.name not in HOST_SAYS
    return str(holder.role) in senders


def own_key(holder: Holder, key: str, value: str) -> bool:
    if key == "node_id" and holder.node:
        return value == holder.node
    if key == "job_id" and holder.job:
        return value == holder.job
    if key == "consumer" and holder.role in (Role.HOST, Role.LAUNCHER):
        return value == {"host": "node-agent-host", "launcher": "node-agent"}[holder.role]
    return True


KEYS = ("n1", "n2", "j1", "j2", "node-agent", "node-agent-host", "recovery-planner")


async def test_each_says_its_own_messages_and_no_other(tried: tuple[Tried, Holder]) -> None:
    doing, holder = tried
    wanted = {
        str(spec.subject(CLUSTER, key)): says(holder, spec) and own_key(holder, spec.key, key)
        for spec in MESSAGES
        for key in KEYS
    }
    done = await doing.publishes(list(wanted))
    assert done == {subject for subject, may in wanted.items() if may}
    elsewhere = [str(spec.subject("other-cluster", "n1")) for spec in MESSAGES]
    assert await doing.publishes(elsewhere) == set()


async def test_nobody_speaks_where_the_stream_republishes_and_only_the_planner_commands(
    tried: tuple[Tried, Holder],
) -> None:
    doing, holder = tried
    commands = [spec for spec in MESSAGES if spec.kind is Kind.CMD]
    assert await doing.publishes([spec.pattern(CLUSTER, "j1", kind=Kind.GO) for spec in commands]) == set()
    gang = [str(spec.subject(CLUSTER, "j1")) for spec in commands if spec.context == "gang"]
    assert gang
    assert await doing.publishes(gang) == (set(gang) if holder.role is Role.RECOVERY_PLANNER else set())


async def test_each_hears_what_it_reads(tried: tuple[Tried, Holder]) -> None:
    doing, holder = tried
    wanted = {}
    for spec in MESSAGES:
        kind = Kind.GO if spec.kind is Kind.CMD else None
        for key in (None, "n1", "n2", "j1", "j2"):
            subject = spec.pattern(CLUSTER, key, kind=kind)
            if holder.role in (Role.CLI, Role.CONSOLE, Role.OPERATOR, Role.HEALTH_INGEST):
                wanted[subject] = True  # they read all; ingest audits
            elif holder.role is Role.HOST:
                wanted[subject] = spec.name == "act" and (holder.node in ("", key))
            elif holder.role is Role.LAUNCHER:
                reads = "node-agent" in spec.readers and spec.name != "act"
                bound = holder.node if spec.key == "node_id" else holder.job
                wanted[subject] = reads and bound in ("", key)
            else:
                wanted[subject] = str(holder.role) in spec.readers
    assert await doing.hears(list(wanted)) == {subject for subject, may in wanted.items() if may}
    raw = [spec.pattern(CLUSTER, "j1") for spec in MESSAGES if spec.kind is Kind.CMD]
    assert await doing.hears(raw) == (set(raw) if holder.role is Role.HEALTH_INGEST else set())


async def test_each_asks_and_answers_its_own_questions(tried: tuple[Tried, Holder]) -> None:
    doing, holder = tried
    asks: dict[str, bool] = {}
    answers: dict[str, bool] = {}
    hosts, launchers = {"host_health", "hardware"}, {"admission", "planner"}
    for ask in ASKS:
        for key in ("n1", "n2", "j1", "j2", "leader", "ledger"):
            own = own_key(holder, ask.key, key)
            if holder.role is Role.HOST:
                asks[ask.pattern(CLUSTER, key)] = own and ask.what in hosts
                answers[ask.pattern(CLUSTER, key)] = own and ask.what == "host_health"
            elif holder.role is Role.LAUNCHER:
                asks[ask.pattern(CLUSTER, key)] = own and ask.what in launchers
                answers[ask.pattern(CLUSTER, key)] = own and ask.what == "ping"
            else:
                asks[ask.pattern(CLUSTER, key)] = str(holder.role) in ask.askers
                answers[ask.pattern(CLUSTER, key)] = str(holder.role) == ask.answerer
    assert await doing.publishes(list(asks)) == {subject for subject, may in asks.items() if may}
    assert await doing.hears(list(answers)) == {subject for subject, may in answers.items() if may}


async def test_the_api_of_jetstream_is_no_way_around(tried: tuple[Tried, Holder]) -> None:
    doing, holder = tried
    streams = [*(str(spec.name) for spec in STREAMS), *(f"KV_{bucket}" for bucket in Bucket)]
    never = ["$SYS.REQ.SERVER.PING", "$JS.API.ACCOUNT.PURGE.$G", "$JS.API.META.LEADER.STEPDOWN", "x", "phx"]
    for stream in streams:
        verbs = ("DELETE", "PURGE", "MSG.DELETE", "SNAPSHOT", "RESTORE", "LEADER.STEPDOWN")
        never += [f"$JS.API.STREAM.{verb}.{stream}" for verb in verbs]
        never += [
            f"$JS.API.CONSUMER.CREATE.{stream}.thief",
            f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.thief",
            f"$JS.API.CONSUMER.CREATE.{stream}.thief.phx.cmd.>",
            f"$JS.API.CONSUMER.PAUSE.{stream}.recovery-planner-{CLUSTER}",
            f"$JS.API.CONSUMER.DELETE.{stream}.recovery-planner-{CLUSTER}",
        ]
    if holder.role in (Role.HOST, Role.LAUNCHER):
        never += ["$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.CONTROL", "$JS.API.DIRECT.GET.CONTROL"]
        never += [f"$JS.API.DIRECT.GET.KV_gangs.$KV.gangs.{CLUSTER}.j1"]
    if holder.node:
        never += [f"$JS.API.DIRECT.GET.KV_nodes.$KV.nodes.{CLUSTER}.n2"]
    assert await doing.publishes([subject for subject in never if not _of_keys(holder, subject)]) == set()
    for role, names in DURABLES.items():
        others = [
            subject
            for name in names
            for subject in (
                f"$JS.API.CONSUMER.MSG.NEXT.AGENTS.{name}-{CLUSTER}",
                f"$JS.API.CONSUMER.CREATE.AGENTS.{name}-{CLUSTER}",
                f"$JS.ACK.AGENTS.{name}-{CLUSTER}.1.1.1.1.0",
                f"$JS.ACK._.hash.AGENTS.{name}-{CLUSTER}.1.1.1.1.0.x",
            )
        ]
        assert await doing.publishes(others) == (set(others) if role is holder.role else set())
    writes = {f"$KV.{bucket}.{CLUSTER}.k": bucket in WRITES.get(holder.role, ()) for bucket in Bucket}
    assert await doing.publishes(list(writes)) == {subject for subject, may in writes.items() if may}
    makes = [f"$JS.API.STREAM.{verb}.{stream}" for verb in ("CREATE", "UPDATE") for stream in streams]
    assert await doing.publishes(makes) == (set(makes) if holder.role is Role.RECOVERY_PLANNER else set())
    inboxes = [f"_INBOX.{other.name}.x" for other in HOLDERS if other != holder] + ["_INBOX.x"]
    assert await doing.hears([*inboxes, ">", "_INBOX.>", "phx.>", "$JS.>", "$KV.>", "$SYS.>"]) == set()
    assert await doing.publishes(inboxes) == set()


def an_inventory(node_id: str) -> Envelope[InventoryReported]:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    report = InventoryReported(node_id=node_id, instance_id="life", devices=(), reported_at=now)
    return seal(report, source="/test", cause_id=node_id, time=now)


def _of_keys(holder: Holder, subject: str) -> bool:
    """Who lists the keys of a bucket ends the short-lived consumer of that."""
    return ".CONSUMER.DELETE.KV_" in subject and holder.role not in (Role.HOST, Role.LAUNCHER)


async def test_only_the_planner_makes_the_streams_and_the_others_wait_for_it(server: SecuredServer) -> None:
    early = await sign_in(server, Role.FAULT_CLASSIFIER)
    hasty = secured.settings_of(server, "fault-classifier").model_copy(update={"connect_limit_s": 0.1})
    with pytest.raises(BusUnavailable, match="recovery-planner makes it"):
        await ensure_streams(early, hasty)
    planner = await sign_in(server, Role.RECOVERY_PLANNER)
    await ensure_streams(planner, secured.settings_of(server, "recovery-planner"))
    await ensure_streams(early, hasty)
    await early.close()
    await planner.close()


async def test_a_denied_request_and_a_denied_subscription_say_so_at_once(server: SecuredServer) -> None:
    host = await sign_in(server, HOST)
    with pytest.raises(NoPermission, match=r"(?s)ermissions violation.*phalanx security check"):
        await host.request("$JS.API.STREAM.INFO.CONTROL", limit_s=30)
    heard = await host.client.subscribe("phx.cmd.>")
    with pytest.raises(NoPermission, match="listening to"):
        await host.subscribed(heard)
    await host.close()
    astray = secured.settings_of(server, HOST.name).model_copy(update={"inbox_prefix": "_INBOX.somebody"})
    host = await connect(astray, name="host")
    with pytest.raises(NoPermission, match=r"(?i)hearing acknowledgements.*_inbox\.somebody"):
        await JetStreamBus(host, cluster=CLUSTER, publish_limit_s=1).publish(an_inventory("n1"))
    await host.close()


async def test_without_a_key_with_a_foreign_one_or_without_tls_nobody_comes_in(
    server: SecuredServer, tmp_path: Path
) -> None:
    known = secured.settings_of(server, "cli")
    stranger = secured.make_folder(tmp_path).identity_path("recovery-planner")
    with pytest.raises(PermanentError, match=r"refused us as recovery-planner \(U"):
        await connect(known.model_copy(update={"nats_nkey_seed_file": stranger}), name="stranger")
    with pytest.raises(PermanentError, match="refused us"):
        await connect(known.model_copy(update={"nats_nkey_seed_file": None}), name="nobody")
    other_ca = known.model_copy(update={"nats_tls_ca": tmp_path / "certs" / "ca.crt", "connect_limit_s": 1.0})
    with pytest.raises((BusUnavailable, PermanentError)):
        await connect(other_ca, name="a server that we do not know")


async def test_check_finds_all_well_and_notices_a_server_that_holds_nobody_to_anything(
    server: SecuredServer, tmp_path: Path
) -> None:
    ring, settings = server.folder.ring(), secured.settings_of(server, "cli")
    found = [await check_identity(server.folder, ring, entry, settings) for entry in ring.entries.values()]
    assert [each for each in found if not each.ok] == []
    assert len(found) == len(HOLDERS)
    lax = secured.make_folder(tmp_path)
    keys = ", ".join(f"{{nkey: {entry.keys[0].public}}}" for entry in lax.ring().entries.values())
    (lax.path / "authorization.conf").write_text(f"authorization {{ users = [{keys}] }}\n")
    open_server = SecuredServer(data_dir=tmp_path / "nats", folder=lax)
    open_server.start()
    try:
        one = await check_identity(lax, lax.ring(), lax.ring().entry("cli"), secured.settings_of(open_server, "cli"))
    finally:
        open_server.stop()
    assert (one.ok, "holds it to nothing" in one.text) == (False, True)

"""`phalanx security`: the identities, permissions and certificates of the bus."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phalanx_cli.commands.bus_question import EXIT_BAD_SETTINGS, fail

if TYPE_CHECKING:
    from fault_contracts.permissions import Role
    from phalanx_cli.security.folder import SecurityFolder

EXIT_REFUSED = 1
RELOAD_S = 1.0
"""What a server gets to take its new configuration before the new seeds are handed out."""

EPILOG = """\
From nothing to a server that knows everybody (docs/security.md):

  phalanx security init certs --host nats.example --node n1 --node n2

  nats-server -c certs/nats.conf

  export NATS_URL=tls://nats.example:4222 NATS_TLS_CA=certs/ca.crt PHALANX_COMMAND_KEYS=certs/command-keys

  NATS_NKEY_SEED_FILE=certs/identities/cli.nk phalanx nodes          each process has its own seed, and no other

  phalanx security check certs
"""

security = typer.Typer(
    name="security",
    help="Identities, permissions and certificates of the bus: make, rotate, check. See docs/security.md.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(help="The folder of `phalanx security init`.")]
ServerPid = Annotated[
    int, typer.Option("--pid", help="Process id of nats-server on this machine: it is reloaded (SIGHUP) when due.")
]


@security.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Made when it is not there; must hold no identities.")],
    cluster: Annotated[str, typer.Option(help="Name of the cluster (PHALANX_CLUSTER).")] = "local",
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address that clients use; several: give it again.")
    ] = None,
    node: Annotated[list[str] | None, typer.Option(help="A machine that gets identities; see `node`.")] = None,
    listen: Annotated[str, typer.Option(help="Where nats-server listens.")] = "0.0.0.0:4222",
    server_dir: Annotated[
        str, typer.Option(help="The folder as nats-server sees it, in its container say. Default: as it is here.")
    ] = "",
    store: Annotated[str, typer.Option(help="Where JetStream keeps its files. Default: jetstream in the folder.")] = "",
) -> None:
    """Make a CA, a server certificate, nats.conf with permissions, and an identity for each service.

    Nobody else can sign in at such a server, and everybody may only what the registry of messages says. Files with
    secrets have mode 0600. Exit code 1: the folder is in use; nothing of it is touched.
    """

    def work(kept: SecurityFolder) -> int:
        from phalanx_cli.security.folder import ServerPlace
        from service_kit.clock import SystemClock

        there = server_dir or str(folder.absolute())
        place = ServerPlace(listen=listen, folder=there, store=store or f"{there}/jetstream")
        hosts = [*(host or []), "localhost", "127.0.0.1"]
        kept.create(cluster=cluster, hosts=list(dict.fromkeys(hosts)), place=place, now=SystemClock().now())
        for name in node or []:
            _add_node(kept, name, job="", role="")
        _say(f"{folder}: identities of {len(kept.ring().entries)} holders, CA and server certificate for {hosts}")
        _say(f"start the server: nats-server -c {folder}/nats.conf; then `phalanx security check {folder}`")
        _say(f"keep {folder}/ca.key off that machine: whoever has it can be the server")
        return 0

    raise typer.Exit(_guarded(folder, work))


@security.command("node")
def node_(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="PHALANX_NODE_ID of the machine; with --every-node leave it out.")] = "",
    job: Annotated[str, typer.Option(help="The launcher may serve this job only.")] = "",
    role: Annotated[str, typer.Option(help="host or launcher; default: both.")] = "",
    every_node: Annotated[
        bool, typer.Option("--every-node", help="One identity that machines share: they can then speak as each other.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="The machine's identities work no longer.")] = False,
    pid: ServerPid = 0,
) -> None:
    """Make the identities of a machine: host-NAME for `phalanx host`, launcher-NAME for `phalanx run`.

    A key speaks as its machine only and hears what is meant for it. The server must be reloaded (--pid, or SIGHUP).
    Exit code 1: they are there, or with --remove are not.
    """
    if bool(name) == every_node:
        raise typer.BadParameter("name a machine, or give --every-node", param_hint="NAME")
    if role not in ("", "host", "launcher"):
        raise typer.BadParameter("host or launcher", param_hint="--role")

    def work(kept: SecurityFolder) -> int:
        if remove:
            from phalanx_cli.security.folder import node_holders

            for holder in node_holders(name, job=job, roles=_roles(role)):
                kept.remove(holder.name)
                _say(f"{holder.name} is no identity any more")
        else:
            _add_node(kept, name, job=job, role=role)
        _reload(pid)
        return 0

    raise typer.Exit(_guarded(folder, work))


@security.command()
def rotate(
    folder: Folder,
    identity: Annotated[
        list[str] | None, typer.Option(help="Whose key; several: give it again. Default: everybody's.")
    ] = None,
    server: Annotated[bool, typer.Option("--server", help="Instead: a new server certificate of the same CA.")] = False,
    ca: Annotated[bool, typer.Option("--ca", help="Instead: a new CA beside the old one.")] = False,
    hand_out: Annotated[
        bool, typer.Option("--hand-out", help="Second step: the server knows the new keys; put the seeds in place.")
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="Last step: the old keys and the old CA work no longer.")
    ] = False,
    pid: ServerPid = 0,
) -> None:
    """Renew keys without interruption: new ones beside the old, hand out, then the old ones end.

    With --pid the first two steps are one: the server is reloaded in between. Processes read their seed and the CA
    anew whenever they connect; a training is not touched. Exit code 1: not in this order.
    """
    if sum((server, ca, hand_out, finish)) > 1:
        raise typer.BadParameter("one of --server, --ca, --hand-out and --finish at a time")

    def work(kept: SecurityFolder) -> int:
        from service_kit.clock import SystemClock

        now = SystemClock().now()
        if server:
            _say(f"a new certificate for {', '.join(kept.renew_server(now))}")
            _reload(pid)
        elif ca:
            kept.renew_ca(now)
            _say("ca.crt holds the new CA and the old one: give it to every process")
            _say("then `rotate --server` (the certificate becomes the new CA's), and at last `rotate --finish`")
        elif hand_out:
            _handed_out(kept)
        elif finish:
            _say(f"old keys and CAs end: {', '.join(kept.finish_rotation()) or 'there were none'}")
            _reload(pid)
        else:
            names = identity or sorted(kept.ring().entries)
            kept.begin_rotation(names, now)
            _say(f"new keys for {', '.join(names)}; the old ones still work")
            _reload(pid)
            if pid:
                time.sleep(RELOAD_S)
                _handed_out(kept)
            else:
                _say(f"then `phalanx security rotate {folder} --hand-out`")
        return 0

    raise typer.Exit(_guarded(folder, work))


@security.command()
def generate(folder: Folder, pid: ServerPid = 0) -> None:
    """Write authorization.conf and command-keys anew from security.json: after an upgrade of Phalanx."""

    def work(kept: SecurityFolder) -> int:
        _say(f"permissions of {len(kept.generate().entries)} identities")
        _reload(pid)
        return 0

    raise typer.Exit(_guarded(folder, work))


@security.command()
def check(
    folder: Folder,
    url: Annotated[str, typer.Option(help="The server; default: NATS_URL. Empty: only the files are checked.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Sign in as each identity whose seed is here, and say what works and what ends when.

    Exit code 0: all is well for 30 days; 1: something is not.
    """

    def work(kept: SecurityFolder) -> int:
        from phalanx_cli.security.check import check_files, check_identity
        from service_kit.clock import SystemClock
        from service_kit.logging import configure_logging
        from service_kit.settings import BusSettings

        # Denials are what is looked for; each would be an error line.
        configure_logging(service="phalanx security", level="critical")
        ring = kept.ring()
        findings = check_files(kept, ring, SystemClock().now())
        server = url or os.environ.get("NATS_URL", "")
        if server:
            settings = BusSettings().model_copy(update={"nats_url": server})
            for _, entry in sorted(ring.entries.items()):
                findings.append(asyncio.run(check_identity(kept, ring, entry, settings)))
        for each in findings:
            if as_json:
                _say(json.dumps({"what": each.what, "ok": each.ok, "text": each.text}))
            else:
                _say(f"{'ok ' if each.ok else 'BAD'}  {each.what:<24} {each.text}")
        if not server:
            _say("no server was asked: --url or NATS_URL names it")
        return 0 if all(each.ok for each in findings) else EXIT_REFUSED

    raise typer.Exit(_guarded(folder, work))


def _guarded(path: Path, work: Callable[[SecurityFolder], int]) -> int:
    # Imported here: `phalanx --help` must not wait for cryptography.
    from phalanx_cli.security.folder import SecurityFolder
    from phalanx_cli.security.keyring import KeyringError

    try:
        return work(SecurityFolder(path))
    except KeyringError as error:
        return fail("security", str(error), EXIT_REFUSED)
    except (OSError, ValueError) as error:
        return fail("security", str(error), EXIT_BAD_SETTINGS)


def _add_node(kept: SecurityFolder, name: str, *, job: str, role: str) -> None:
    from phalanx_cli.security.folder import node_holders
    from service_kit.clock import SystemClock

    holders = node_holders(name, job=job, roles=_roles(role))
    kept.add(holders, SystemClock().now())
    for holder in holders:
        _say(f"{holder.name}: {kept.identity_path(holder.name)}")


def _roles(role: str) -> list[Role]:
    from fault_contracts.permissions import Role

    return [Role(role)] if role else [Role.HOST, Role.LAUNCHER]


def _handed_out(kept: SecurityFolder) -> None:
    done = kept.hand_out()
    _say(f"new seeds in place: {', '.join(done) or 'none was waiting'}")
    if done:
        _say("give them to their processes, with command-keys to every agent; then `rotate --finish` ends the old keys")


def _reload(pid: int) -> None:
    if pid:
        os.kill(pid, signal.SIGHUP)
        _say(f"nats-server {pid} was told to reload")
    else:
        _say("reload nats-server (SIGHUP) for it to take effect")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")

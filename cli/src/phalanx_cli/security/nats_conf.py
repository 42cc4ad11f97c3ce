"""The server's configuration: who may sign in, and what each may do. Generated. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from phalanx_cli.security.keyring import Keyring
from service_kit.bus_access import RESPONSE_S, access_of

MAX_PAYLOAD_BYTES = 1 << 20
AUTHORIZATION_FILE = "authorization.conf"


def authorization_text(ring: Keyring) -> str:
    """The file that nats.conf includes; a server takes a new one on SIGHUP, and connections stay."""
    return "\n".join(_authorization(ring)) + "\n"


def _authorization(ring: Keyring) -> Iterator[str]:
    yield "# Written by phalanx security from security.json; it is written anew with each change."
    yield "# Lists are what is allowed: everything else is denied. Who may what, and why: docs/security.md."
    yield "authorization {"
    yield "  timeout: 5"
    yield "  users = ["
    for name, entry in sorted(ring.entries.items()):
        access = access_of(entry.holder, ring.cluster)
        for key in entry.keys:
            newest = key is entry.keys[0]
            yield f"    # {name}{'' if newest else ', the key before: until its rotation is finished'}"
            yield f"    {{ nkey: {key.public}"
            yield "      permissions: {"
            yield f"        publish: {{ allow: {_list(access.publish)} }}"
            yield f"        subscribe: {{ allow: {_list(access.subscribe)} }}"
            yield f'        allow_responses: {{ max: 1, expires: "{RESPONSE_S}s" }}'
            yield "      } }"
    yield "  ]"
    yield "}"


def _list(subjects: Sequence[str]) -> str:
    return "[\n" + "".join(f"          {json.dumps(subject)}\n" for subject in subjects) + "        ]"


def server_text(*, listen: str, folder: str, store: str) -> str:
    """nats.conf: TLS and identities demanded, JetStream on files with fsync."""
    return f"""\
# Written by phalanx security init; yours from then on. `authorization.conf` beside it is generated.
server_name: phalanx
listen: {json.dumps(listen)}
max_payload: {MAX_PAYLOAD_BYTES}

tls {{
  cert_file: {json.dumps(f"{folder}/server.crt")}
  key_file: {json.dumps(f"{folder}/server.key")}
  min_version: "1.2"
  timeout: 5
}}

jetstream {{
  store_dir: {json.dumps(store)}
  # "Acknowledged" means "survives a power loss" only with fsync.
  sync_interval: always
}}

include "{AUTHORIZATION_FILE}"
"""

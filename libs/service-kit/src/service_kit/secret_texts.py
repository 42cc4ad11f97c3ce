"""Takes secrets out of a text before it is logged or shown: by their form, because nobody knows who quoted them.

A library's error message may hold the URL that it was given; a message of a user's program anything. This is the last
net: nothing of ours writes a secret on purpose (settings hold them as SecretStr, URLs are shown without passwords).
"""

from __future__ import annotations

import re

SHOWN = "***"
_SECRETS = re.compile(
    r"(?P<url>://)[^\s/@\"'<>]{1,512}@"
    # NATS: seeds of users, accounts, operators, servers, clusters and curve keys are 58 letters of base 32.
    r"|\bS[UAONCX][A-Z2-7]{56}\b"
    r"|-----BEGIN (?P<pem>[A-Z ]{0,40}(?:PRIVATE KEY|SEED))-----"
    r"(?:[\w+/=:,.\s]|\\{1,8}[nrt]){0,8192}(?:-{3,6}END (?P=pem)-{3,6})?"
    r"|\beyJ[\w-]{8,4096}\.[\w-]{8,4096}\.[\w-]{0,4096}"  # a JWT
    r"|(?P<scheme>\b(?i:bearer|basic)\s{1,4})[\w.~+/=-]{8,4096}"
    r"|(?P<name>(?i:password|passwd|secret|api_?key|access_?key|token)(?:\\{0,8}[\"'])?\s{0,4}[=:]\s{0,4}(?:\\{0,8}[\"'])?)[^\s\"',;&\\]{6,4096}"
)
"""Each part is bounded, so that the time is linear in the text. No part ends within an escape of JSON or goes over a
quotation mark: a line of JSON stays one."""


def without_secrets(text: str) -> str:
    """The text with `***` for what looks like a secret."""
    return _SECRETS.sub(_shown, text)


def _shown(hit: re.Match[str]) -> str:
    if hit["url"]:
        return f"://{SHOWN}@"
    return f"{hit['scheme'] or hit['name'] or ''}{SHOWN}"

"""NKEYs: ed25519 keys in the text form of NATS, to sign in at the server and to sign commands.

A public key is `U` and 55 letters, a seed `SU` and 56: base32 of a kind, 32 bytes and a CRC-16. `cryptography` does the
arithmetic; the form is so small that a package of its own would only be one more to audit. That package comes with
the first key: its 10 MB are a seventh of an idle agent, and on a bus without identities nobody needs them.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_SEED = 18 << 3
_USER = 20 << 3
_KEY_BYTES = 32
_PUBLIC_CHARACTERS = 56
_KEYS_CACHED = 64


class BadKey(ValueError):
    """Not a key; the text never shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserKey:
    """A user's pair of keys."""

    public: str
    seed: str = field(repr=False)

    def sign(self, data: bytes) -> bytes:
        """64 bytes."""
        return _private_key(self.seed).sign(data)


def new_user_key(entropy: bytes) -> UserKey:
    """The pair that 32 random bytes make."""
    if len(entropy) != _KEY_BYTES:
        raise BadKey(f"{len(entropy)} bytes of entropy; a key takes {_KEY_BYTES}")
    return user_key(_with_crc(bytes([_SEED | (_USER >> 5), (_USER & 31) << 3]) + entropy))


def user_key(seed: str) -> UserKey:
    """The pair of a seed.

    Raises:
        BadKey: not the seed of a user.
    """
    public = _private_key(seed).public_key().public_bytes_raw()
    return UserKey(public=_with_crc(bytes([_USER]) + public), seed=seed)


def is_signed_by(public: str, signature: bytes, data: bytes) -> bool:
    """Whether the holder of `public` signed exactly this.

    Raises:
        BadKey: `public` is no public key of a user.
    """
    from cryptography.exceptions import InvalidSignature

    try:
        _public_key(public).verify(signature, data)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=_KEYS_CACHED)
def _public_key(public: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = _without_crc(public, "a public key")
    if len(public) != _PUBLIC_CHARACTERS or raw[0] != _USER:
        raise BadKey("not the public key of a user: those begin with U and have 56 letters")
    return Ed25519PublicKey.from_public_bytes(raw[1:])


def check_public(public: str) -> str:
    """The same text.

    Raises:
        BadKey: not the public key of a user.
    """
    _public_key(public)
    return public


@lru_cache(maxsize=4)
def _private_key(seed: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_raw_of_seed(seed))


def _raw_of_seed(seed: str) -> bytes:
    raw = _without_crc(seed, "a seed")
    if len(raw) != _KEY_BYTES + 2 or raw[0] != _SEED | (_USER >> 5) or raw[1] != (_USER & 31) << 3:
        raise BadKey("not the seed of a user: those begin with SU and have 58 letters")
    return raw[2:]


def _with_crc(raw: bytes) -> str:
    return base64.b32encode(raw + _crc16(raw)).decode().rstrip("=")


def _without_crc(text: str, what: str) -> bytes:
    try:
        whole = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError) as error:
        raise BadKey(f"not {what}: letters A to Z and digits 2 to 7 are expected") from error
    raw, crc = whole[:-2], whole[-2:]
    if not raw or _crc16(raw) != crc:
        raise BadKey(f"not {what}: its check sum is wrong (a letter is missing or changed)")
    return raw


def _crc16(raw: bytes) -> bytes:
    """XMODEM, little-endian, as NATS has it."""
    return binascii.crc_hqx(raw, 0).to_bytes(2, "little")

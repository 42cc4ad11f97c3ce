"""Keys in the text form of NATS. The vector was made by the package nkeys 0.2.1."""

import pytest

from service_kit.nkey import BadKey, check_public, is_signed_by, new_user_key, user_key

SEED, PUBLIC = (
    "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y",
    "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK",
)
NONCE = b"a nonce of the server"
SIGNATURE = (
    "84ada1d5ba3001ead61161fa1f3a4b0e9582746fef2d8697a5ba3ec74d54bdbf"
    "a6b7041e3dbe5efbd14540f7a434a5b923ca56feef4da13148cf2e5e9e353c00"
)


def test_a_key_reads_and_signs_as_nkeys_does() -> None:
    key = user_key(SEED)
    assert key.public == PUBLIC
    assert key.sign(NONCE).hex() == SIGNATURE
    assert is_signed_by(PUBLIC, bytes.fromhex(SIGNATURE), NONCE)


def test_another_text_or_another_key_is_not_what_was_signed() -> None:
    signature = user_key(SEED).sign(NONCE)
    assert not is_signed_by(PUBLIC, signature, NONCE + b"!")
    assert not is_signed_by(new_user_key(bytes(32)).public, signature, NONCE)
    assert not is_signed_by(PUBLIC, b"", NONCE)


def test_a_new_key_comes_back_from_its_seed() -> None:
    key = new_user_key(bytes(range(32)))
    assert user_key(key.seed) == key
    assert key.seed not in repr(key)


@pytest.mark.parametrize("seed", ["", "SU", PUBLIC, SEED[:-1], SEED.lower(), SEED[:20] + "A" + SEED[21:], "ü" * 58])
def test_what_is_no_seed_is_refused_and_not_shown(seed: str) -> None:
    with pytest.raises(BadKey) as refused:
        user_key(seed)
    assert not seed or seed not in str(refused.value)


@pytest.mark.parametrize("public", ["", "U", SEED, PUBLIC[:-1], PUBLIC[1:], "A" + PUBLIC[1:]])
def test_what_is_no_public_key_is_refused(public: str) -> None:
    with pytest.raises(BadKey):
        check_public(public)

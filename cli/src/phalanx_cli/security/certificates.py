"""A small CA and the server's certificate. Clients need none: they sign in with their key."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS = 3_650
SERVER_DAYS = 365
"""Long enough that a yearly habit renews it, short enough that a stolen key is of no use for long."""
BACKDATED = timedelta(hours=1)
"""A machine whose clock is behind must not refuse a new certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def new_ca(*, cluster: str, now: datetime, days: int = CA_DAYS) -> Pair:
    """A certificate that signs server certificates and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, f"phalanx {cluster} CA"[:64]),
            # Two CAs of one cluster differ by name, so that a client that trusts both finds the right one.
            x509.NameAttribute(NameOID.SERIAL_NUMBER, f"{now:%Y%m%d%H%M%S%f}"),
        ]
    )
    certificate = (
        _builder(name, name, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate=_pem(certificate), key=_key_pem(key))


def new_server_certificate(ca: Pair, *, hosts: Sequence[str], now: datetime, days: int = SERVER_DAYS) -> Pair:
    """The certificate of a server that is reached under these names and addresses."""
    issuer = x509.load_pem_x509_certificate(ca.certificate)
    issuer_key = serialization.load_pem_private_key(ca.key, password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey), "our CA's keys are of this kind"
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    certificate = (
        _builder(name, issuer.subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            # Servers of a cluster are clients of each other.
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return Pair(certificate=_pem(certificate), key=_key_pem(key))


def hosts_of(certificate: bytes) -> list[str]:
    """The names and addresses that a certificate is for."""
    found = x509.load_pem_x509_certificate(certificate)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(each.value) for each in names]


def days_left(certificate: bytes, now: datetime) -> float:
    """Until the first of the certificates in a file ends."""
    ends = [each.not_valid_after_utc for each in x509.load_pem_x509_certificates(certificate)]
    return (min(ends) - now) / timedelta(days=1)


def is_issued_by(certificate: bytes, ca: bytes) -> bool:
    """Whether one of the CAs in a file signed the certificate."""
    found = x509.load_pem_x509_certificate(certificate)
    for each in x509.load_pem_x509_certificates(ca):
        try:
            found.verify_directly_issued_by(each)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

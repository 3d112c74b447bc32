# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates as they are kept: what is in them, and new ones.

Rule: docs/reference/admission.md#serving-and-certificates. Certificates live in the machine's time.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from koord.base.errors import MissingExtraError

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ModuleNotFoundError as error:
    raise MissingExtraError("cryptography", "kube", error.name) from None

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AUTHORITY_NAME = "webhook-cert-ca"
VALID = timedelta(days=3650)
AUTHORITY_KEY, AUTHORITY = "ca-key.pem", "ca-cert.pem"
KEY, CERTIFICATE = "key.pem", "cert.pem"
"""The names that they are kept under."""

_KEY_BITS = 2048
_KEPT = 32
# What is made now counts already for machines whose clocks are behind.
_BACKDATED = timedelta(hours=1)
_FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
_UNREADABLE = (ValueError, TypeError, InvalidSignature, x509.UnsupportedGeneralNameType)


@dataclass(frozen=True)
class KeyMaterial:
    """An authority and a server's certificate; PEM throughout.

    Attributes:
        authority_key: of the first authority; empty where it is somebody else's.
        authorities: certificates of all that are trusted; the first signs.
        key: the server's.
        certificate: the server's, and what is between it and an authority.
    """

    authority_key: bytes
    authorities: bytes
    key: bytes
    certificate: bytes

    @classmethod
    def of_files(cls, files: Mapping[str, bytes]) -> KeyMaterial | None:
        """What is kept under the four names; None if one is missing."""
        names = (AUTHORITY_KEY, AUTHORITY, KEY, CERTIFICATE)
        return cls(*(files[name] for name in names)) if all(map(files.get, names)) else None

    def files(self) -> dict[str, bytes]:
        """By the names that they are kept under."""
        return {
            AUTHORITY_KEY: self.authority_key,
            AUTHORITY: self.authorities,
            KEY: self.key,
            CERTIFICATE: self.certificate,
        }

    def holds(self, name: str, when: datetime) -> bool:
        """Whether the certificate is the key's, for a name, and trusted at a time."""
        return any(first <= when <= last for first, last in _windows(self, name))

    def authority_holds(self, when: datetime) -> bool:
        """Whether the first authority can sign now, and is still good at a time."""
        first = trusted(self.authorities)[:1]
        return bool(first) and _is_key(self.authority_key, first[0]) and _within(first[0], when)

    def signed_by_first(self) -> bool:
        """Whether the first authority has signed the certificate."""
        try:
            leaf = x509.load_pem_x509_certificates(self.certificate)[0]
            return _signed(leaf, trusted(self.authorities)[0])
        except (*_UNREADABLE, IndexError):
            return False

    def age(self, now: datetime) -> timedelta:
        """For how long the certificate has counted.

        Raises:
            ValueError: it cannot be read.
        """
        leaf = x509.load_pem_x509_certificates(self.certificate)[0]
        return now - leaf.not_valid_before_utc - _BACKDATED


def first_of(authorities: bytes) -> bytes:
    """The first certificate of PEM with several."""
    return _pem(trusted(authorities)[0])


def joined(authorities: Sequence[bytes], now: datetime) -> bytes:
    """PEM with all certificates of several, each once, without those that are over."""
    found: dict[bytes, None] = {}
    for each in authorities:
        for certificate in trusted(each):
            if now <= certificate.not_valid_after_utc:
                found[_pem(certificate)] = None
    return b"".join(found)


def trusted(authorities: bytes) -> list[x509.Certificate]:
    """The certificates in PEM; none in what is no PEM."""
    try:
        return x509.load_pem_x509_certificates(authorities)
    except ValueError:
        return []


def contains(authorities: bytes, wanted: bytes) -> bool:
    """Whether the first certificate of ``wanted`` is among those of ``authorities``."""
    first = trusted(wanted)[:1]
    return bool(first) and first[0] in trusted(authorities)


def new_authority(now: datetime, valid: timedelta = VALID) -> tuple[bytes, bytes]:
    """Key and certificate of a new authority."""
    key = rsa.generate_private_key(65_537, _KEY_BITS)
    usage = x509.KeyUsage(True, False, True, False, False, True, False, False, False)
    builder = _builder(_named(AUTHORITY_NAME), _named(AUTHORITY_NAME), key, now, valid)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())
    return _private(key), _pem(certificate)


def new_certificate(
    authority_key: bytes, authority: bytes, name: str, now: datetime, valid: timedelta = VALID
) -> tuple[bytes, bytes]:
    """Key and certificate of a server, signed by the first authority.

    Args:
        authority_key, authority: PEM.
        name: of the server; an IP address or a DNS name.
    """
    issuer = trusted(authority)[0]
    signer = serialization.load_pem_private_key(authority_key, None)
    assert isinstance(signer, rsa.RSAPrivateKey)
    key = rsa.generate_private_key(65_537, _KEY_BITS)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), _general_name(name)])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    signed = (
        _builder(_named(name[:64]), issuer.subject, key, now, valid)
        .add_extension(names, critical=False)
        .add_extension(usage, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(identifier, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _private(key), _pem(signed)


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    name: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, now: datetime, valid: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(issuer, name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(min(now + valid, _FOREVER))
    )


@lru_cache(_KEPT)
def _windows(material: KeyMaterial, name: str) -> list[tuple[datetime, datetime]]:
    """When a certificate is its key's, for a name, and trusted; one an authority.

    Kept: it is asked with every look at readiness, and keys take milliseconds to read.
    """
    try:
        leaf = x509.load_pem_x509_certificates(material.certificate)[0]
        if not (_is_key(material.key, leaf) and _is_for(leaf, name)):
            return []
    except _UNREADABLE:
        return []
    signers = [each for each in trusted(material.authorities) if _signed(leaf, each)]
    return [
        (
            max(leaf.not_valid_before_utc, each.not_valid_before_utc),
            min(leaf.not_valid_after_utc, each.not_valid_after_utc),
        )
        for each in signers
    ]


@lru_cache(_KEPT)
def _is_key(key: bytes, certificate: x509.Certificate) -> bool:
    """Whether a private key is that of a certificate."""
    try:
        found = serialization.load_pem_private_key(key, None)
        return found.public_key() == certificate.public_key()
    except _UNREADABLE:
        return False


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _within(certificate: x509.Certificate, when: datetime) -> bool:
    return certificate.not_valid_before_utc <= when <= certificate.not_valid_after_utc


def _is_for(certificate: x509.Certificate, name: str) -> bool:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return _general_name(name) in list(names)


def _signed(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except _UNREADABLE:
        return False
    return True


def _private(key: rsa.RSAPrivateKey) -> bytes:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)

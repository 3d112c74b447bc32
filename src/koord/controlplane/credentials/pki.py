# SPDX-License-Identifier: Apache-2.0
"""Certificate authorities for one server and for its clients, its certificate, and a token."""

from __future__ import annotations

import os
import secrets
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from koord.base.errors import KoordError, MissingExtraError

if TYPE_CHECKING:
    from pathlib import Path

_VALID = timedelta(days=3650)
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_FILES = ("ca.crt", "server.crt", "server.key", "token")
CLIENT_AUTHORITY, CLIENT_AUTHORITY_KEY = "client-ca.crt", "client-ca.key"
"""Who has the key makes users: the common name is a user's, organisations are groups."""


@dataclass(frozen=True)
class Credentials:
    """What a server shows and what it asks for.

    Attributes:
        authority: PEM, what clients trust.
        folder: where ``server.crt`` and ``server.key`` lie, for OpenSSL.
        token: the bearer token that clients send.
        client_authority: PEM, what certificates of clients are signed by.
    """

    authority: bytes
    folder: Path
    token: str
    client_authority: bytes

    def context(self) -> ssl.SSLContext:
        """TLS of the server's side."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        context.load_verify_locations(cadata=self.client_authority.decode("ascii"))
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def credentials(folder: Path) -> Credentials:
    """The credentials in a folder; made, readable to the owner alone, where there are none.

    Raises:
        KoordError: the folder or a file in it cannot be read or written, or some are missing.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = [name for name in _FILES if (folder / name).exists()]
        if not found:
            _make(folder)
        elif len(found) < len(_FILES):
            raise KoordError(str(folder), "", "only some credentials", "all of them or none: "
                             "remove the folder to have new ones made")  # fmt: skip
        clients = [folder / name for name in (CLIENT_AUTHORITY, CLIENT_AUTHORITY_KEY)]
        # Folders of before have none.
        if not all(path.exists() for path in clients):
            _make_client_authority(folder)
        authority, client_authority = (folder / "ca.crt").read_bytes(), clients[0].read_bytes()
        token = (folder / "token").read_text(encoding="ascii").strip()
    except OSError as error:
        raise KoordError.wrap(str(folder), "", error) from None
    return Credentials(authority, folder, token, client_authority)


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only its owner may read; the old content stays whole until then."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _make_client_authority(folder: Path) -> None:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ModuleNotFoundError:
        raise MissingExtraError("cryptography", "kube") from None
    now, key = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
    text = f"koord-client-ca-{secrets.token_hex(4)}"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(folder / CLIENT_AUTHORITY_KEY, private)
    write_private(folder / CLIENT_AUTHORITY, certificate.public_bytes(pem))


def _make(folder: Path) -> None:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ModuleNotFoundError:
        raise MissingExtraError("cryptography", "kube") from None
    # Certificates live in the machine's time, whatever clock the server is given.
    now = datetime.now(UTC)

    def builder(name: str, issuer: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        return (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(issuer))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + _VALID)
        )

    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name = f"koord-ca-{secrets.token_hex(4)}"
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    authority = (
        builder(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
    names += [x509.IPAddress(ip_address(text)) for text in ("127.0.0.1", "::1")]
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    server = (
        builder("kube-apiserver", authority_name, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(issuer_key, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(folder / "ca.crt", authority.public_bytes(pem))
    write_private(folder / "server.crt", server.public_bytes(pem))
    write_private(folder / "server.key", private)
    write_private(folder / "token", secrets.token_urlsafe(32).encode())

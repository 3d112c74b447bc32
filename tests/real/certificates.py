# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates of a control plane that lives for one test session."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=1)


def new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A fresh P-256 key, kept in a file that only its owner reads."""
    key = ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return key


@dataclass(frozen=True)
class Authority:
    """A certificate authority; ``NAME.crt`` and ``NAME.key`` lie in ``folder``."""

    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey
    subject: x509.Name

    @classmethod
    def create(cls, folder: Path, name: str) -> Authority:
        """A new self-signed authority."""
        key = new_key(folder / f"{name}.key")
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        authority = cls(folder, name, key, subject)
        builder = authority._builder(subject, key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        authority._write(builder, name)
        return authority

    @classmethod
    def load(cls, folder: Path, name: str) -> Authority:
        """One whose files are there."""
        key = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        own = x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())
        return cls(folder, name, key, own.subject)

    @property
    def certificate(self) -> Path:
        """Its own certificate."""
        return self.folder / f"{self.name}.crt"

    def issue(
        self,
        name: str,
        organization: str = "",
        server: bool = False,
        addresses: tuple[str, ...] = (),
    ) -> tuple[Path, Path]:
        """A certificate for ``name`` and its key, as files; a server's is for loopback and more."""
        key = new_key(self.folder / f"{name}.key")
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organization:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = self._builder(x509.Name(attributes), key).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if server:
            reached = (ipaddress.ip_address(each) for each in ("127.0.0.1", *addresses))
            names = [x509.DNSName("localhost"), *map(x509.IPAddress, reached)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return self._write(builder, name), self.folder / f"{name}.key"

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - VALID)
            .not_valid_after(now + VALID)
        )

    def _write(self, builder: x509.CertificateBuilder, name: str) -> Path:
        path = self.folder / f"{name}.crt"
        signed = builder.sign(self.key, hashes.SHA256())
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return path

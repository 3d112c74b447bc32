# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests: an authority, a server on loopback, a client."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """An authority that has signed for ``127.0.0.1`` and ``api.example.com``, and for a client.

    Args:
        folder: where the PEM files go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
        self.ca, _ = self._signed("ca", self._key, [])
        names = [
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.DNSName("api.example.com"),
        ]
        server_key = ec.generate_private_key(ec.SECP256R1())
        self.server_certificate, self.server_key = self._signed("server", server_key, names)
        client_key = ec.generate_private_key(ec.SECP256R1())
        self.client_certificate, self.client_key = self._signed("client", client_key, [])

    def server_context(self, ask: bool = True) -> ssl.SSLContext:
        """For a server; with ``ask``, clients must show a certificate of this authority."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.ca))
        context.load_cert_chain(self.server_certificate, self.server_key)
        if ask:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _signed(
        self, name: str, key: ec.EllipticCurvePrivateKey, names: list[x509.GeneralName]
    ) -> tuple[Path, Path]:
        now = datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(self._name if name == "ca" else subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(name == "ca", None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        paths = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

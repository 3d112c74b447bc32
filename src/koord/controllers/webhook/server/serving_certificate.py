# SPDX-License-Identifier: Apache-2.0
"""The certificate that the server shows: changed while it serves, without a connection lost."""

from __future__ import annotations

import os
import ssl
from hashlib import sha256

from koord.base.errors import Code, KoordError


class ServingCertificate:
    """TLS of the server's side; a new certificate counts from the next handshake on.

    Attributes:
        context: for the listening socket, from the first certificate on.
    """

    def __init__(self) -> None:
        self.context = _context()
        self._digest = b""

    @property
    def present(self) -> bool:
        """Whether there is one to show."""
        return bool(self._digest)

    def show(self, certificate: bytes, key: bytes) -> bool:
        """Shows a certificate from now on; connections that stand go on as they are.

        Args:
            certificate, key: PEM; the chain begins with the server's own.

        Returns:
            Whether it is another than before.

        Raises:
            KoordError: they cannot be read, or do not go together; the former stays.
        """
        pem = certificate + b"\n" + key
        digest = sha256(pem).digest()
        if digest == self._digest:
            return False
        # Tried first where nobody is served, so that a bad pair breaks nothing.
        _load(_context(), pem)
        _load(self.context, pem)
        self._digest = digest
        return True


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    # OpenSSL reads files; this one is in memory and has no name.
    file = os.memfd_create("serving-certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(file), "wb") as written:
            written.write(pem)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        expected = f"a certificate and its key in PEM ({reason})"
        raise KoordError("serving certificate", "", "another", expected, Code.UNREADABLE) from None
    finally:
        os.close(file)

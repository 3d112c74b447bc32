# SPDX-License-Identifier: Apache-2.0
"""Where an API server is and who asks.

A configuration is a snapshot. What it was read from (kubeconfig, a pod's service account) is read
again by :meth:`ClusterConfig.renewed` when its credentials have expired or were refused.
"""

from __future__ import annotations

import math
import os
import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.base.clock import SystemClock
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.base.clock import Clock

_PEM = "-----BEGIN"


@contextmanager
def _as_path(path_or_pem: str) -> Iterator[str]:
    """A path for what reads from paths alone; a key given as text never gets onto a disk."""
    if _PEM not in path_or_pem:
        yield path_or_pem
        return
    with os.fdopen(os.memfd_create("pem"), "w+b") as file:
        file.write(path_or_pem.encode())
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


@dataclass(frozen=True)
class ClusterConfig:
    """One API server and the credentials for it.

    Attributes:
        server: ``https://host:port``, with a path where the server is behind one.
        ca: authorities to trust, as a path or as PEM text; empty for the system's.
        token: bearer token.
        authorization: the whole header, where it is another than a bearer token.
        client_certificate: as a path or as PEM text.
        client_key: likewise.
        verify: whether the server must prove who it is.
        tls_server_name: the name it must prove, where it is not the host.
        proxy_url: the HTTP proxy in between.
        namespace: the context's, for commands that are given none.
        source: where this was read, for messages.
        expires_at_seconds: wall time from which the credentials are to be read again.
        reload: reads it anew; None where there is nothing to read.
        clock: tells whether the credentials have expired.
    """

    server: str
    ca: str = ""
    token: str = field(default="", repr=False)
    authorization: str = field(default="", repr=False)
    client_certificate: str = ""
    client_key: str = field(default="", repr=False)
    verify: bool = True
    tls_server_name: str = ""
    proxy_url: str = ""
    namespace: str = "default"
    source: str = ""
    expires_at_seconds: float = math.inf
    reload: Callable[[], ClusterConfig] | None = field(default=None, repr=False, compare=False)
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.server.startswith(("https://", "http://")):
            raise KoordError(self.source or "cluster", "server", self.server, "https://host:port")
        if self.token and not self.authorization:
            object.__setattr__(self, "authorization", f"Bearer {self.token}")
        object.__setattr__(self, "server", self.server.rstrip("/"))

    def expired(self) -> bool:
        """Whether the credentials are to be read again before they are used."""
        return self.reload is not None and self.clock.wall_seconds() >= self.expires_at_seconds

    def renewed(self) -> ClusterConfig:
        """The configuration read anew; itself where there is nothing to read.

        Runs plugins and reads files: not for an event loop's thread.
        """
        return self if self.reload is None else self.reload()

    def tls_context(self) -> ssl.SSLContext:
        """The TLS settings of connections.

        Raises:
            KoordError: an authority, certificate or key that cannot be read.
        """
        pem = self.ca if _PEM in self.ca else None
        try:
            context = ssl.create_default_context(
                cafile=None if pem else self.ca or None, cadata=pem
            )
        except (OSError, ValueError) as error:
            raise self._unreadable("ca", "PEM text" if pem else self.ca, error) from None
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.client_certificate:
            certificate, key = self.client_certificate, self.client_key
            try:
                with _as_path(certificate) as path, _as_path(key) as key_path:
                    context.load_cert_chain(path, key_path or None)
            except (OSError, ValueError) as error:
                where = "PEM text" if _PEM in certificate else certificate
                raise self._unreadable("client certificate", where, error) from None
        return context

    def _unreadable(self, name: str, value: str, error: Exception) -> KoordError:
        expected = f"readable PEM ({error})"
        return KoordError(self.source or self.server, name, value, expected, Code.UNREADABLE)

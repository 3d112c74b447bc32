# SPDX-License-Identifier: Apache-2.0
"""The secure port of a daemon: TLS, and who may get what of it.

Rule: docs/reference/scheduling.md#who-may-ask.
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Any

from koord.base import log
from koord.base.errors import Code, KoordError
from koord.kube.daemon.delegation import AccessReviewError, Delegation, User
from koord.kube.daemon.origins import AccessRefusal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from aiohttp import web

    from koord.base.clock import Clock
    from koord.kube.daemon.secure_port_options import SecurePortOptions
    from koord.kube.transport.messages import Transport

_LOG = log.get("serving")
_LOOK_AGAIN_SECONDS = 60.0
_BEARER = "bearer "
METRICS = "/metrics"
"""The path whose right is that of all metrics, as roles of Prometheus have it."""


class SecurePort:
    """Serves over TLS to whom the cluster's RBAC lets.

    Args:
        host: address to listen on.
        options: checked.
        transport: the way to the daemon's own API server; reviews are no writes, so they go past
            a dry run. It stays the caller's.
        connect: makes the way by a kubeconfig, where other credentials are named for reviews.
        clock: of what is kept.

    Raises:
        KoordError: a certificate, key, authority or kubeconfig that cannot be read.
    """

    def __init__(
        self,
        host: str,
        options: SecurePortOptions,
        transport: Transport,
        connect: Callable[[str], Transport],
        clock: Clock,
    ) -> None:
        self.host, self.port = host, options.secure_port
        self._options, self._clock = options, clock
        self._connect = connect
        self._opened: dict[str, Transport] = {}
        self._certificate = _CertificateFiles(options, clock)
        self._delegation = Delegation(
            self._transport(options.authentication_kubeconfig, transport),
            self._transport(options.authorization_kubeconfig, transport),
            options,
            clock,
        )

    @property
    def tls(self) -> ssl.SSLContext:
        """For the listening socket."""
        return self._certificate.listening

    async def close(self) -> None:
        """Ends connections of its own."""
        for transport in self._opened.values():
            await transport.close()

    async def refusal(self, request: web.Request, metrics: Collection[str]) -> AccessRefusal | None:
        """Why a request is not answered; None where it is.

        Args:
            request: that came over TLS.
            metrics: paths that count as ``/metrics``.
        """
        path, verb = request.path, request.method.lower()
        if verb == "get" and any(_covers(each, path) for each in self._options.open_paths()):
            return None
        try:
            user = await self._user(request)
            if user is None:
                return AccessRefusal(401, "a bearer token or a certificate that the cluster knows")
            asked = METRICS if path in metrics else path
            if await self._delegation.allows(user, verb, asked):
                return None
        except AccessReviewError as error:
            return AccessRefusal(503, f"the API server was not asked who may: {error}")
        return AccessRefusal(403, f'user "{user.name}" cannot {verb} path "{asked}"')

    async def _user(self, request: web.Request) -> User | None:
        kind, token = "", request.headers.get("Authorization", "")
        if token[: len(_BEARER)].lower() == _BEARER:
            kind, token = _BEARER, token[len(_BEARER) :].strip()
        if kind and token:
            return await self._delegation.user(token)
        certificate = request.get_extra_info("peercert")
        return (
            _of_certificate(certificate) if certificate and self._options.client_ca_file else None
        )

    def _transport(self, kubeconfig: str, own: Transport) -> Transport:
        if not kubeconfig:
            return own
        if kubeconfig not in self._opened:
            self._opened[kubeconfig] = self._connect(kubeconfig)
        return self._opened[kubeconfig]


class _CertificateFiles:
    """Certificate and key from files, read again once they have changed, at a client's hello.

    Attributes:
        listening: hands each connection to the newest.
    """

    def __init__(self, options: SecurePortOptions, clock: Clock) -> None:
        self._options, self._clock = options, clock
        self._seen = self._file_versions()
        self._looked_at = clock.monotonic_seconds()
        self._newest = self._load()
        self.listening = self._load()
        self.listening.sni_callback = self._hand_over

    def _hand_over(self, connection: Any, name: str | None, context: ssl.SSLContext) -> None:
        del name, context
        now = self._clock.monotonic_seconds()
        if now - self._looked_at >= _LOOK_AGAIN_SECONDS:
            self._looked_at = now
            self._renew()
        connection.context = self._newest

    def _renew(self) -> None:
        versions = self._file_versions()
        if versions == self._seen:
            return
        try:
            self._newest = self._load()
        except KoordError as error:
            # Half of a renewal: the files are looked at again, until then the old one serves.
            _LOG.warning("certificate not renewed", extra=log.fields(error=str(error)))
        else:
            self._seen = versions
            _LOG.info("certificate renewed", extra=log.fields(file=self._options.tls_cert_file))

    def _file_versions(self) -> list[tuple[int, int]]:
        found = []
        for path in (self._options.tls_cert_file, self._options.tls_private_key_file):
            try:
                told = os.stat(path)  # noqa: PTH116
                found.append((told.st_mtime_ns, told.st_ino))
            except OSError:
                found.append((0, 0))
        return found

    def _load(self) -> ssl.SSLContext:
        options = self._options
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(options.tls_cert_file, options.tls_private_key_file)
        except (OSError, ValueError) as error:
            raise _unreadable("--tls-cert-file", options.tls_cert_file, error) from None
        if options.client_ca_file:
            try:
                context.load_verify_locations(options.client_ca_file)
            except (OSError, ValueError) as error:
                raise _unreadable("--client-ca-file", options.client_ca_file, error) from None
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def _unreadable(flag: str, path: str, error: Exception) -> KoordError:
    return KoordError(flag, "", path, f"readable PEM and its key ({error})", Code.UNREADABLE)


def _of_certificate(certificate: Any) -> User | None:
    """A user by a certificate, as Kubernetes reads them: the common name, organizations groups."""
    parts = [pair for rdn in certificate.get("subject", ()) for pair in rdn]
    names = [value for key, value in parts if key == "commonName"]
    groups = tuple(value for key, value in parts if key == "organizationName")
    return User(names[-1], groups=(*groups, "system:authenticated")) if names else None


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern

# SPDX-License-Identifier: Apache-2.0
"""The secure port of a daemon, as its command line tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.kube.daemon.secure_port import SecurePort
    from koord.kube.daemon.secure_port_options import SecurePortOptions
    from koord.kube.transport.messages import Transport

_REVIEWS_AT_ONCE = 4


def open_secure_port(
    host: str, options: SecurePortOptions, transport: Transport, clock: Clock
) -> SecurePort | None:
    """The secure port beside a plain one: at the same address, or at every one beside loopback.

    Args:
        host: where the plain port listens.
        options, transport, clock: see :class:`koord.kube.daemon.secure_port.SecurePort`.

    Returns:
        None where none is wanted.

    Raises:
        KoordError: a certificate, key, authority or kubeconfig that cannot be read.
    """
    if not options.secure_port:
        return None
    from koord.kube.daemon.origins import is_loopback
    from koord.kube.daemon.secure_port import SecurePort
    from koord.kube.transport.credentials import load_cluster_config
    from koord.kube.transport.http import HttpTransport

    def connect(kubeconfig: str) -> Transport:
        return HttpTransport(load_cluster_config(kubeconfig), connections=_REVIEWS_AT_ONCE)

    where = "0.0.0.0" if is_loopback(host) else host
    return SecurePort(where, options, transport, connect, clock)

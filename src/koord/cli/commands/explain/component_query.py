# SPDX-License-Identifier: Apache-2.0
"""Questions to the component that decided: found by its Lease, or at a given address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from koord.api.protocol.keys import LEADER_ENDPOINT
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from koord.kube.transport.config import ClusterConfig

_SECONDS = 30.0
_FORWARD = "or ask by kubectl port-forward and --server http://127.0.0.1:PORT"


class ComponentLeases(NamedTuple):
    """Who may be asked.

    Args:
        name: of the program.
        leases: namespace and name of those that its leader may hold, in the order they are tried.
    """

    name: str
    leases: tuple[tuple[str, str], ...]


# kube-scheduler's Lease too: koord-scheduler may stand in for it.
SCHEDULER = ComponentLeases(
    "koord-scheduler",
    (("koordinator-system", "koord-scheduler"), ("kube-system", "kube-scheduler")),
)
MANAGER = ComponentLeases("koord-manager", (("koordinator-system", "koordinator-manager"),))
DESCHEDULER = ComponentLeases("koord-descheduler", (("koordinator-system", "koord-descheduler"),))
_FLAGS = {MANAGER: "--manager", DESCHEDULER: "--descheduler"}


class AnswerError(KoordError):
    """The component's own words why it does not answer.

    Args:
        component: its name.
        message: what it said.
        status: of HTTP; from 500 on it is not the question's fault.
    """

    def __init__(self, component: str, message: str, status: int) -> None:
        self._message = message
        super().__init__(component, "", message, "an answer", Code.NOT_FOUND)
        self.exit_status = 2 if status < 500 else 1

    def _line(self) -> str:
        return self._message


class NoLeaderError(AnswerError):
    """Nobody leads by a Lease of the component."""


def path_segment(name: str) -> str:
    """A name as one part of a path, whatever is in it."""
    if not name.strip("."):
        raise KoordError("NAME", "", name, "the name of an object")
    return quote(name, safe="")


def check(flag: str, server: str) -> None:
    """Refuses an address that is no URL."""
    if server and not server.startswith(("http://", "https://")):
        raise KoordError(flag, "", server, "a URL such as http://127.0.0.1:10251")


async def answer(
    component: ComponentLeases, server: str, kubeconfig: Path | None, path: str
) -> Any:
    """What a component answers.

    Args:
        component: who is asked.
        server: its address; empty to find its leader in the cluster.
        kubeconfig: how to reach the cluster.
        path: the question.

    Raises:
        AnswerError: it does not answer, or nobody leads.
        ConnectionError: it cannot be reached.
        KoordError: there is no way to the cluster.
    """
    import aiohttp
    from yarl import URL

    url = server.rstrip("/") or await _leader(component, kubeconfig)
    asked = url if server else f"{component.name}, which leads by its Lease, at {url}"
    limit = aiohttp.ClientTimeout(total=_SECONDS)
    tls, headers = _credentials(url, kubeconfig)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.get(
                URL(url + path, encoded=True), ssl=tls, headers=headers, allow_redirects=False
            ) as response,
        ):
            status, body = response.status, await response.json(content_type=None)
    except TimeoutError:
        raise ConnectionError(f"{asked}: no answer within {_SECONDS:.0f} s") from None
    except aiohttp.ClientConnectorCertificateError as error:
        why = f"its certificate is not the cluster's ({error.certificate_error})"
        raise ConnectionError(f"{asked}: {why}; {_FORWARD}") from None
    except aiohttp.ClientConnectorError as error:
        why = error.os_error.strerror or str(error.os_error)
        raise ConnectionError(f"{asked}: cannot be reached from here ({why})") from None
    except aiohttp.ClientError as error:
        raise ConnectionError(f"{url}: {error}") from None
    except ValueError:
        raise ConnectionError(f"{url}: this is not {component.name} that answers") from None
    if status in (401, 403) and isinstance(body, dict) and body.get("message"):
        raise AnswerError(component.name, f"{url}: {body['message']}; {_FORWARD}", status)
    if status != 200:
        message = body.get("message", "") if isinstance(body, dict) else ""
        said = str(message) or f"{url}: HTTP status {status}"
        raise AnswerError(component.name, said, status)
    return body


def _credentials(url: str, kubeconfig: Path | None) -> tuple[ssl.SSLContext | bool, dict[str, str]]:
    """See :func:`secure_port_credentials`; nothing where there is no way to the cluster."""
    if not url.startswith("https://"):
        return True, {}
    from koord.kube.transport.credentials import load_cluster_config

    try:
        return secure_port_credentials(url, load_cluster_config(kubeconfig))
    except KoordError:
        # Only --server gets here without one.
        return True, {}


def secure_port_credentials(
    url: str, cluster: ClusterConfig
) -> tuple[ssl.SSLContext | bool, dict[str, str]]:
    """How a secure port is asked: with what the API server takes, if its authority vouches for it.

    Without an authority that is checked nothing is shown: a token is good for the whole cluster.

    Args:
        url: of the port.
        cluster: how the API server is reached.

    Returns:
        What aiohttp takes as ``ssl``, and headers.
    """
    if not (url.startswith("https://") and cluster.verify and cluster.ca):
        return True, {}
    return cluster.tls_context(), (
        {"Authorization": cluster.authorization} if cluster.authorization else {}
    )


async def _leader(component: ComponentLeases, kubeconfig: Path | None) -> str:
    """Where the leader answers, by the annotation of its Lease."""
    from koord.api.kinds.cluster import Lease
    from koord.kube.client import Client
    from koord.kube.errors import ApiError
    from koord.kube.transport.credentials import load_cluster_config
    from koord.kube.transport.http import HttpTransport

    transport = HttpTransport(load_cluster_config(kubeconfig))
    try:
        client = Client(transport)
        for namespace, name in component.leases:
            try:
                lease = await client.get(Lease, name, namespace)
            except ApiError as error:
                if error.http_status != 404:
                    raise
                continue
            url = lease.metadata.annotations.get(LEADER_ENDPOINT)
            # Who gave the lease back does not answer there any more.
            if url and lease.spec.holder_identity:
                return url
    finally:
        await transport.close()
    raise NoLeaderError(
        component.name,
        f"no {component.name} leads here: no Lease has an annotation {LEADER_ENDPOINT}; "
        f"{_FLAGS.get(component, '--server')} URL asks one directly",
        503,
    )

# SPDX-License-Identifier: Apache-2.0
"""What a bundle has of the components that lead: debug states and metrics, from their own ports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from koord.api.protocol.keys import LEADER_ENDPOINT
from koord.cli.commands.bundle.archive import FILE_BYTES
from koord.cli.commands.explain.component_query import secure_port_credentials

if TYPE_CHECKING:
    import ssl

    from koord.base.documents import Document
    from koord.cli.commands.bundle.archive import Bundle
    from koord.cli.commands.bundle.cluster_files import ClusterFiles
    from koord.kube.transport.config import ClusterConfig

_SECONDS: Final = 15.0


class ServedComponent(NamedTuple):
    """A component that answers questions.

    Attributes:
        name: of the program.
        leases: of those by which it leads.
        metrics: path of its series.
        states: paths of its debug states.
    """

    name: str
    leases: tuple[str, ...]
    metrics: str
    states: tuple[str, ...]


COMPONENTS: Final = (
    ServedComponent(
        "koord-scheduler", ("koord-scheduler", "kube-scheduler"), "/metrics",
        ("/debug/parts", "/debug/queue", "/debug/cache", "/debug/drift", "/debug/flags"),
    ),
    ServedComponent(
        "koord-manager", ("koordinator-manager",), "/all-metrics", ("/debug/parts",)
    ),
    ServedComponent(
        "koord-descheduler", ("koord-descheduler",), "/metrics",
        ("/debug/parts", "/debug/rounds", "/debug/plan"),
    ),
)  # fmt: skip


async def component_files(
    bundle: Bundle, component: ServedComponent, cluster: ClusterFiles, config: ClusterConfig
) -> None:
    """Adds what the leader of a component tells.

    Args:
        bundle: gets the files.
        component: who is asked.
        cluster: knows the Leases of koord's namespace.
        config: how the API server is reached; its credentials are shown to a port whose
            certificate is by the cluster's own authority, and to no other.
    """
    url = _endpoint(component, cluster.leases)
    if not url:
        why = f"no Lease of {' or '.join(component.leases)} has an annotation {LEADER_ENDPOINT}"
        bundle.note_problem(f"components/{component.name}", why)
        return
    import aiohttp

    tls, headers = secure_port_credentials(url, config)
    limit = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(timeout=limit, headers=headers) as session:
        for path in (*component.states, component.metrics):
            name = f"components/{component.name}/{path.strip('/').replace('/', '-')}"
            try:
                async with session.get(url + path, ssl=tls, allow_redirects=False) as answer:
                    body = await _read(answer)
                    _add(bundle, name, answer.status, body, path == component.metrics)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                reason = str(error) or f"no answer within {_SECONDS:.0f} s"
                bundle.note_problem(name, f"{url}: {reason}")
                if isinstance(error, aiohttp.ClientConnectorError):
                    bundle.note_problem(
                        f"components/{component.name}", "cannot be reached from here"
                    )
                    return


async def fetch(url: str, tls: ssl.SSLContext | bool, headers: dict[str, str]) -> tuple[int, str]:
    """The status and body of one answer; 0 and the reason where there is none.

    Args:
        url: that is asked.
        tls: as aiohttp takes it.
        headers: of the request.
    """
    import aiohttp

    limit = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, headers=headers) as session,
            session.get(url, ssl=tls, allow_redirects=False) as answer,
        ):
            body = await _read(answer)
            return answer.status, body if answer.status == 200 else f"{answer.status}: {body}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return 0, str(error) or f"no answer within {_SECONDS:.0f} s"


async def _read(answer: Any) -> str:
    """The body, no more of it than a file may have."""
    parts, size = [], 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > FILE_BYTES:
            break
    return b"".join(parts).decode(errors="replace")


def _add(bundle: Bundle, name: str, status: int, body: str, metrics: bool) -> None:
    if status != 200:
        bundle.note_problem(name, f"HTTP status {status}: {body[:200]}")
        return
    if metrics:
        bundle.text(f"{name}.txt", body, keep_end=False)
        return
    try:
        bundle.document(f"{name}.json", json.loads(body))
    except ValueError:
        bundle.note_problem(name, "no JSON")


def _endpoint(component: ServedComponent, leases: list[Document]) -> str:
    """Where the leader answers; empty where nobody leads."""
    for name in component.leases:
        for lease in leases:
            held = lease.get("spec", {}).get("holderIdentity")
            if lease["metadata"]["name"] == name and held:
                annotations = lease["metadata"].get("annotations") or {}
                return str(annotations.get(LEADER_ENDPOINT, ""))
    return ""

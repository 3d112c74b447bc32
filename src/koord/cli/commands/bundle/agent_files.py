# SPDX-License-Identifier: Apache-2.0
"""What a bundle has of agents: what each sees, decides and is refused, from its own secure port."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from koord.cli.commands.bundle.allow_list import AGENT_STATUS, kept
from koord.cli.commands.bundle.cluster_files import MOST_AGENTS
from koord.cli.commands.bundle.component_files import fetch
from koord.cli.commands.explain.component_query import secure_port_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.base.documents import Document
    from koord.cli.commands.bundle.archive import Bundle
    from koord.kube.transport.config import ClusterConfig

_PORT: Final = "https-metrics"
_FOLDER: Final = "agents"


async def agent_files(bundle: Bundle, pods: list[Document], config: ClusterConfig) -> None:
    """Adds the status of the first agents, by the names of their pods.

    Args:
        bundle: gets the files.
        pods: of koord's namespace.
        config: how the API server is reached, whose credentials are shown as to components.
    """
    agents = [each for each in pods if each["metadata"]["name"].startswith("koordlet")]
    if not agents:
        bundle.note_problem(_FOLDER, "no pod of koordlet runs; on a machine: koord node status")
        return
    if len(agents) > MOST_AGENTS:
        bundle.note_problem(_FOLDER, f"of {MOST_AGENTS} of {len(agents)} agents")
    for pod in sorted(agents, key=lambda each: str(each["metadata"]["name"]))[:MOST_AGENTS]:
        await _add_status(bundle, pod, config)


async def _add_status(bundle: Bundle, pod: Document, config: ClusterConfig) -> None:
    name = f"{_FOLDER}/{pod['metadata']['name']}"
    url = _url(pod)
    if not url:
        bundle.note_problem(name, f"no address, or no port {_PORT}: secureMetrics.enabled")
        return
    tls, headers = secure_port_credentials(url, config)
    status, body = await fetch(f"{url}/status", tls, headers)
    if status != 200:
        bundle.note_problem(name, f"{url}: {body[:200]}")
        return
    try:
        told: Any = json.loads(body)
    except ValueError:
        bundle.note_problem(name, "no JSON")
        return
    bundle.document(f"{name}.json", kept(told, AGENT_STATUS))


def _url(pod: Document) -> str:
    """Where it answers over TLS; empty where it does not."""
    address = pod.get("status", {}).get("podIP")
    for port in _ports(pod):
        if port.get("name") == _PORT and address:
            host = f"[{address}]" if ":" in address else address
            return f"https://{host}:{port['containerPort']}"
    return ""


def _ports(pod: Document) -> Iterable[Document]:
    for container in pod.get("spec", {}).get("containers", []):
        yield from container.get("ports") or []

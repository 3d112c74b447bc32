# SPDX-License-Identifier: Apache-2.0
"""Objects put into a cluster as they are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from koord.api.kinds.registry import Kind
from koord.check.original import installation
from koord.kube.client import Client
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport

_NAMESPACE = Kind("", "v1", "Namespace", "namespaces", False, "")
_KINDS = {
    each.name: each for each in (*installation.READ, installation.CONFIG_MAP, installation.LEASE)
}


def fill(kubeconfig: Path, namespace: str, objects: list[dict[str, Any]]) -> None:
    """Makes the namespace and applies the objects."""

    async def work() -> None:
        transport = HttpTransport(load_cluster_config(kubeconfig, None))
        client = Client(transport, "test")
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.apply(made, kind=_NAMESPACE, field_manager="test")
        for each in objects:
            await client.apply(each, kind=_KINDS[each["kind"]], field_manager="test")
        await transport.close()

    asyncio.run(work())

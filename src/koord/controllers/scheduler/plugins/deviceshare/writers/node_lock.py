# SPDX-License-Identifier: Apache-2.0
"""A lock on a node, as an annotation: one pod at a time for device plugins that could not tell two
apart. The device plugin takes it off when it has served the pod.

Rule: docs/reference/devices.md#for-vendors-device-plugins.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.timestamps import seconds_text
from koord.base.errors import KoordError, value_text
from koord.kube.errors import ApiError
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from koord.kube.client import Client

_TIMEOUT_SECONDS = 300.0


class NodeLockedError(RuntimeError):
    """Another pod is being served, or the lock cannot be read; the text says which."""


def _lock_value(now_seconds: float, pod: Pod) -> str:
    """``<RFC 3339>,<namespace>,<name>``."""
    meta = pod.metadata
    return f"{seconds_text(now_seconds)},{meta.namespace},{meta.name}"


def _is_stale(value: str, now_seconds: float) -> tuple[bool, str, str]:
    """Whether a lock has timed out, and the namespace and name of the pod that holds it.

    Raises:
        NodeLockedError: not a lock's value.
    """
    parts = value.split(",")
    if len(parts) != 3:
        raise NodeLockedError(f"invalid node lock value {value_text(value)}")
    try:
        since = datetime.fromisoformat(parts[0])
        age = now_seconds - since.timestamp()
    except (ValueError, OverflowError):
        raise NodeLockedError(f"invalid node lock value {value_text(value)}") from None
    return age > _TIMEOUT_SECONDS, parts[1], parts[2]


class NodeLocks:
    """Locks nodes; two bindings of this process on one node wait for each other."""

    def __init__(self) -> None:
        self._held: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def lock(
        self, client: Client, node_name: str, key: str, pod: Pod, now_seconds: float
    ) -> None:
        """Writes the lock.

        Args:
            client: reads the node as it is now, and writes under that version.
            node_name: which.
            key: of the annotation.
            pod: that is to be served.
            now_seconds: wall time.

        Raises:
            NodeLockedError: another pod holds it.
        """
        mutex = self._held.get(node_name)
        if mutex is None:
            mutex = self._held[node_name] = asyncio.Lock()
        async with mutex:
            node = await client.get(Node, node_name)
            value = node.metadata.annotations.get(key)
            if value is not None and not await _released(client, value, now_seconds):
                raise NodeLockedError(f'node "{node_name}" has been locked')
            change = {
                "metadata": {
                    "resourceVersion": node.metadata.resource_version,
                    "annotations": {key: _lock_value(now_seconds, pod)},
                }
            }
            await client.patch(Node, node_name, Patch.merge(change))


async def _released(client: Client, value: str, now_seconds: float) -> bool:
    stale, namespace, name = _is_stale(value, now_seconds)
    if stale:
        return True
    try:
        await client.get(Pod, name, namespace)
    except ApiError as error:
        if error.http_status == 404:
            return True
        raise
    except KoordError as error:
        raise NodeLockedError(f"the pod that holds the lock cannot be read: {error}") from None
    return False

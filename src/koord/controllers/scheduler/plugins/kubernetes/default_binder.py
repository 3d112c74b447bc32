# SPDX-License-Identifier: Apache-2.0
"""DefaultBinder: writes a pod's node through the binding subresource."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.kinds.pod import Pod
from koord.base import faults
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.kube.client import Client

_CONFLICT, _NOT_FOUND, _SERVER_FAULT = 409, 404, 500
# How long until it is asked again what became of a Binding.
_AGAIN_SECONDS = 1.0


class DefaultBinder(Plugin):
    """Binds every pod. Where there is no cluster, there is nothing to write."""

    name = "DefaultBinder"

    async def bind(self, cycle: Cycle, node_name: str) -> bool:
        """Posts the Binding; its uid makes the API refuse if the pod was made anew meanwhile.

        Where an answer does not tell whether it took effect, the pod is read: until that is known
        the pod holds its place, for others may not have it.

        Raises:
            ApiError: the API refused.
            TransportError: it could not be reached.
        """
        client, pod = self.handle.client, cycle.pod.pod
        if client is None:
            return True
        try:
            await client.bind(pod, node_name)
        except (ApiError, TransportError) as error:
            if not _may_have_worked(error) or not await _is_on(client, pod, node_name):
                raise
        return True


def _may_have_worked(error: ApiError | TransportError) -> bool:
    """Whether a pod may be bound though the answer is an error.

    A conflict is what the second of two tries is answered with when the first one worked.
    """
    if isinstance(error, TransportError):
        return error.sent
    return error.http_status == _CONFLICT or error.http_status >= _SERVER_FAULT


async def _is_on(client: Client, pod: Pod, node_name: str) -> bool:
    """Whether the API has this very pod on a node; asks until somebody answers.

    Raises:
        ApiError: the pod is gone, or may not be read.
    """
    meta = pod.metadata
    while True:
        try:
            faults.point("scheduler.bind.outcome")
            live = await client.get(Pod, meta.name, namespace=meta.namespace)
        except TransportError:
            await asyncio.sleep(_AGAIN_SECONDS)
        except ApiError as error:
            if error.http_status < _SERVER_FAULT:
                raise
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            return live.metadata.uid == meta.uid and live.spec.node_name == node_name

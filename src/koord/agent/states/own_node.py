# SPDX-License-Identifier: Apache-2.0
"""The Node that the agent looks after: awaited at the start, told of when it goes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.kinds.node import Node
from koord.base import log
from koord.base.errors import KoordError
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from koord.kube.client import Client

RETRY_SECONDS = 5.0
_NOT_FOUND, _UNAUTHORIZED, _FORBIDDEN = 404, 401, 403
_LOG = log.get("agent")


async def own_node(client: Client, name: str) -> Node:
    """Waits until the API server answers and the node is registered.

    What is waited for is said once, and again when it is something else: a server that is away
    for an hour is one line.

    Args:
        client: best one that gives up early, so that the first line comes soon.
        name: of the node.

    Raises:
        KoordError: the server does not take the credentials.
    """
    told, tries = "", 0
    while True:
        try:
            found = await client.get(Node, name)
        except (ApiError, TransportError) as error:
            reason, tries = _reason(error, name), tries + 1
        else:
            if tries:
                _LOG.info("the node is there", extra=log.fields(node=name, tries=tries + 1))
            return found
        if reason != told:
            _LOG.warning("waiting for the node", extra=log.fields(node=name, reason=reason))
        told = reason
        await asyncio.sleep(RETRY_SECONDS)


def _reason(error: ApiError | TransportError, name: str) -> str:
    """Why there is no answer yet. KoordError where waiting does not help."""
    if isinstance(error, TransportError):
        return str(error)
    if error.http_status == _UNAUTHORIZED:
        expected = "credentials that it takes: those of --kubeconfig, KUBECONFIG or the pod"
        raise KoordError(f"the API server, asked for Node {name}", "", "Unauthorized", expected)
    if error.http_status == _FORBIDDEN:
        raise error
    return "no such Node yet" if error.http_status == _NOT_FOUND else str(error)

# SPDX-License-Identifier: Apache-2.0
"""Which subresources have rules of their own; those that need containers are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.api_errors import bad_request
from koord.controlplane.kinds.registry import resources
from koord.controlplane.subresources.binding import bind
from koord.controlplane.subresources.eviction import BUDGETS, Evictions
from koord.controlplane.subresources.service_account_token import ServiceAccountToken

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.authorization.account_tokens import AccountTokens
    from koord.controlplane.subresources.request import Handlers, SubresourceRequest

# By subresource, what a simulated node does instead.
_NEED_CONTAINERS = {
    "log": "keeps no logs",
    "exec": "runs no containers to execute commands in",
    "attach": "runs no containers to attach to",
    "portforward": "runs no containers that listen on a port",
    "proxy": "runs no containers that listen on a port",
}


def handlers(tokens: AccountTokens) -> Handlers:
    """The subresources with rules of their own, by storage and name.

    Args:
        tokens: of service accounts.
    """
    by_storage = {entry.storage: entry for entry in resources()}
    return {
        ("pods", "binding"): bind,
        ("pods", "eviction"): Evictions(by_storage[BUDGETS]),
        **{("pods", name): refuse for name in _NEED_CONTAINERS},
        ("serviceaccounts", "token"): ServiceAccountToken(tokens, by_storage["pods"]),
    }


async def refuse(call: SubresourceRequest) -> tuple[int, Document]:
    """Refuses what needs containers: simulated nodes run none.

    Raises:
        ApiError: 404 no pod; 400 else.
    """
    call.verbs.read(call.resource, call.namespace, call.name)
    missing = _NEED_CONTAINERS[call.subresource]
    raise bad_request(f"pod {call.name} is on a simulated node, which {missing}")

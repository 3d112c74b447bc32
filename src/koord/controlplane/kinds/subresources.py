# SPDX-License-Identifier: Apache-2.0
"""Smaller subresources: containers that do not exist, tokens that nobody checks."""

from __future__ import annotations

from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

from koord.api.timestamps import seconds_text
from koord.controlplane.bodies import checked
from koord.controlplane.failures import bad_request, failure, invalid_value, method_not_allowed
from koord.kube.errors import StatusDetails

if TYPE_CHECKING:
    from koord.controlplane.extension import Call

Document = dict[str, Any]

_LIFETIME_SECONDS = 3600
_SHORTEST_SECONDS, _LONGEST_SECONDS = 600, 1 << 32
_TOKEN_BYTES = 32


# By subresource, what a simulated node does instead.
NEED_CONTAINERS = {
    "log": "keeps no logs",
    "exec": "runs no containers to execute commands in",
    "attach": "runs no containers to attach to",
    "portforward": "runs no containers that listen on a port",
    "proxy": "runs no containers that listen on a port",
}


async def refuse(call: Call) -> tuple[int, Document]:
    """Refuses what needs containers: simulated nodes run none.

    Raises:
        ApiError: 404 no pod; 400 else.
    """
    call.verbs.read(call.resource, call.namespace, call.name)
    lacking = NEED_CONTAINERS[call.subresource]
    raise bad_request(f"pod {call.name} is on a simulated node, which {lacking}")


async def token(call: Call) -> tuple[int, Document]:
    """A random token for a service account. This server does not accept it as a credential.

    Raises:
        ApiError: 404 no such account; 405 for anything but POST; 422 a lifetime out of bounds.
    """
    if call.method != "POST":
        raise method_not_allowed()
    call.verbs.read(call.resource, call.namespace, call.name)
    request = checked(call.document or {}, "authentication.k8s.io", "v1", "TokenRequest")
    spec = dict(request.get("spec") or {})
    spec.setdefault("audiences", ["https://kubernetes.default.svc"])
    seconds = spec.setdefault("expirationSeconds", _LIFETIME_SECONDS)
    _check_lifetime(seconds)
    until = seconds_text(datetime.fromisoformat(call.context.now) + timedelta(seconds=seconds))
    return 201, {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": call.name, "namespace": call.namespace},
        "spec": spec,
        "status": {"token": token_urlsafe(_TOKEN_BYTES), "expirationTimestamp": until},
    }


def _check_lifetime(seconds: int) -> None:
    if seconds < _SHORTEST_SECONDS:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > _LONGEST_SECONDS:
        why = "may not specify a duration larger than 2^32 seconds"
    else:
        return
    cause = invalid_value("spec.expirationSeconds", seconds, why)
    kind, group = "TokenRequest", "authentication.k8s.io"
    details = StatusDetails(group=group, kind=kind, causes=[cause])
    told = f'{kind}.{group} "" is invalid: {cause.field}: {cause.message}'
    raise failure(422, "Invalid", told, details)

# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts: random ones that no server checks."""

from __future__ import annotations

from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from koord.api.timestamps import seconds_text
from koord.base.documents import Document
from koord.controlplane.api_errors import failure, invalid_value, method_not_allowed
from koord.controlplane.requests.bodies import checked
from koord.kube.errors import StatusDetails

if TYPE_CHECKING:
    from koord.controlplane.subresources.request import SubresourceRequest


_LIFETIME_SECONDS = 3600
_SHORTEST_SECONDS, _LONGEST_SECONDS = 600, 1 << 32
_TOKEN_BYTES = 32


async def token(call: SubresourceRequest) -> tuple[int, Document]:
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

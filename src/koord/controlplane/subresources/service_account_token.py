# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts, on request."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from koord.api.timestamps import seconds_text
from koord.base.documents import Document
from koord.controlplane.api_errors import bad_request, failure, invalid_value, method_not_allowed
from koord.controlplane.authorization.account_tokens import AUDIENCE
from koord.controlplane.requests.bodies import checked
from koord.kube.errors import StatusDetails

if TYPE_CHECKING:
    from koord.controlplane.authorization.account_tokens import AccountTokens
    from koord.controlplane.resource import Resource
    from koord.controlplane.subresources.request import SubresourceRequest


_LIFETIME_SECONDS = 3600
_SHORTEST_SECONDS, _LONGEST_SECONDS = 600, 1 << 32


class ServiceAccountToken:
    """Serves the subresource ``token`` of service accounts.

    Args:
        tokens: signs them.
        pods: what tokens may be bound to.
    """

    def __init__(self, tokens: AccountTokens, pods: Resource) -> None:
        self._tokens, self._pods = tokens, pods

    async def __call__(self, call: SubresourceRequest) -> tuple[int, Document]:
        """A token for a service account.

        Raises:
            ApiError: 404 no such account or pod; 405 for anything but POST; 409 another pod of
                that name; 422 a lifetime out of bounds, or bound to what tokens cannot be.
        """
        if call.method != "POST":
            raise method_not_allowed()
        account = call.verbs.read(call.resource, call.namespace, call.name)
        request = checked(call.document or {}, "authentication.k8s.io", "v1", "TokenRequest")
        spec = dict(request.get("spec") or {})
        spec.setdefault("audiences", [AUDIENCE])
        seconds = spec.setdefault("expirationSeconds", _LIFETIME_SECONDS)
        _check_lifetime(seconds)
        bound = _bound(call, self._pods, spec.get("boundObjectRef") or {})
        until = datetime.fromisoformat(call.context.now) + timedelta(seconds=seconds)
        signed = self._tokens.sign(account, spec["audiences"], seconds, bound)
        return 201, {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": call.name, "namespace": call.namespace},
            "spec": spec,
            "status": {"token": signed, "expirationTimestamp": seconds_text(until)},
        }


def _bound(call: SubresourceRequest, pods: Resource, reference: Document) -> Document:
    """What a token ends with, as its claims name it."""
    if not reference:
        return {}
    kind, name = reference.get("kind") or "", reference.get("name") or ""
    if kind != "Pod":
        raise bad_request(f"cannot bind token to object of type {kind}: this server knows Pods")
    pod = call.verbs.read(pods, call.namespace, name)
    owner = pod["spec"].get("serviceAccountName") or "default"
    if owner != call.name:
        raise bad_request(f'cannot bind token for serviceaccount "{call.name}" to pod running with '
                          "different serviceaccount name.")  # fmt: skip
    uid = pod["metadata"].get("uid", "")
    if reference.get("uid") and reference["uid"] != uid:
        raise failure(
            409, "Conflict", f'Operation cannot be fulfilled on Pod "{name}": the UID in the bound '
            f"object reference ({reference['uid']}) does not match the UID in record. The object "
            "might have been deleted and then recreated",
        )  # fmt: skip
    node = pod["spec"].get("nodeName")
    found: Document = {"pod": {"name": name, "uid": uid}}
    return found | ({"node": {"name": node}} if node else {})


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

# SPDX-License-Identifier: Apache-2.0
"""``authorization.k8s.io`` and ``authentication.k8s.io``: created, answered, kept nowhere.

What of them has a path without a namespace is a page of :mod:`koord.controlplane.nonresource`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane import discovery
from koord.controlplane.api_errors import bad_request, method_not_allowed, no_such_path
from koord.controlplane.authorization.access import AccessRequest
from koord.controlplane.authorization.identity import Identity
from koord.controlplane.requests import bodies, routes
from koord.controlplane.resource import Resource
from koord.controlplane.schema import core_schema
from koord.controlplane.storage import conversion
from koord.kube.transport.messages import Response

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.authorization.rbac import AccessVerdict, Authorizer
    from koord.kube.transport.messages import Request

_LOCAL = "LocalSubjectAccessReview"
_KINDS = {
    "authorization.k8s.io": (
        _LOCAL, "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview",
    ),
    "authentication.k8s.io": ("SelfSubjectReview", "TokenReview"),
}  # fmt: skip


class ReviewApi:
    """One of the two groups; a :class:`koord.controlplane.extension.VirtualApi`.

    Attributes:
        resources: what discovery lists.
    """

    def __init__(self, group: str, authorizer: Authorizer) -> None:
        self._group, self._authorizer = group, authorizer
        self.resources = tuple(
            Resource(
                group, "v1", kind, f"{kind.lower()}s", kind == _LOCAL,
                core_schema(group, "v1", kind), verbs=("create",),
            )
            for kind in _KINDS[group]
        )  # fmt: skip

    async def __call__(self, request: Request) -> Response:
        """Lists the group, or answers a review within a namespace.

        Raises:
            ApiError: 400, 404 or 405.
        """
        if request.path.rstrip("/").count("/") == 2:
            return _answered(200, discovery.group(self.resources, self._group))
        route = routes.parse(request.path)
        if route.version != "v1" or route.name:
            raise no_such_path()
        if not route.plural:
            return _answered(200, discovery.resource_list(self.resources, self._group, "v1"))
        resource = next((one for one in self.resources if one.plural == route.plural), None)
        if resource is None or resource.namespaced != bool(route.namespace):
            raise no_such_path()
        if request.method != "POST":
            raise method_not_allowed()
        review = bodies.review(request.body, request.content_type)
        meta = review.setdefault("metadata", {})
        if not isinstance(meta, dict) or meta.get("namespace", route.namespace) != route.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace "
                              "sent on the request")  # fmt: skip
        spec = review.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        access = AccessRequest.of_review(spec)
        if access.namespace != route.namespace:
            raise bad_request("spec.resourceAttributes.namespace must match metadata.namespace")
        verdict = self._authorizer.verdict(reviewed_identity(spec), access)
        return _answered(201, {**review, "status": status_of(verdict)})


def apis(authorizer: Authorizer) -> dict[str, ReviewApi]:
    """Both, by the prefix of their paths."""
    return {f"/apis/{group}": ReviewApi(group, authorizer) for group in _KINDS}


def reviewed_identity(spec: Document) -> Identity:
    """Whom a review of somebody's rights is about."""
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    return Identity(spec.get("user") or "", groups, spec.get("uid") or "", extra)


def status_of(verdict: AccessVerdict) -> Document:
    """A verdict as reviews tell it."""
    found: Document = {"allowed": verdict.allowed}
    return {**found, "reason": verdict.reason} if verdict.reason else found


def _answered(status: int, document: Document) -> Response:
    return Response(status, conversion.encode(document))

# SPDX-License-Identifier: Apache-2.0
"""What is asked for: a verb on a resource, or on a path that is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.controlplane.handlers.read import truth
from koord.controlplane.requests import routes

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.authorization.identity import Identity
    from koord.kube.transport.messages import Request

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "HEAD": "get"}
_ONE_NAME = "metadata.name="


@dataclass(frozen=True)
class AccessRequest:
    """One question.

    Attributes:
        verb: e.g. ``list``; of a path the HTTP method in lower case.
        group: empty for the core group.
        resource: in the plural; empty for a path.
        subresource: empty for the object itself.
        namespace: empty for all, or for what is in none.
        name: empty for all.
        path: of what is no resource.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def of_review(cls, spec: Document) -> AccessRequest:
        """What a review asks about."""
        path = spec.get("nonResourceAttributes")
        if path:
            return cls(path.get("verb") or "", path=path.get("path") or "")
        told = spec.get("resourceAttributes") or {}
        return cls(
            told.get("verb") or "", told.get("group") or "", told.get("resource") or "",
            told.get("subresource") or "", told.get("namespace") or "", told.get("name") or "",
        )  # fmt: skip

    def refusal_text(self, identity: Identity) -> str:
        """Why somebody is refused, in kube-apiserver's words."""
        user = f'User "{identity.name}" cannot {self.verb}'
        if not self.resource:
            return f'{user} path "{self.path}"'
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'{user} resource "{what}" in API group "{self.group}" {where}'


def access_of(request: Request) -> AccessRequest:
    """What a request to this server asks for."""
    path, method = request.path, request.method
    if path.rstrip("/").count("/") <= 2 or not path.startswith(("/api/", "/apis/")):
        return AccessRequest(_VERBS.get(method, method.lower()), path=path)
    route = routes.parse(path)
    if not route.plural:
        return AccessRequest(_VERBS.get(method, method.lower()), path=path)
    name = route.name
    namespace = route.namespace or (name if route.plural == "namespaces" else "")
    query = dict(request.query)
    if not name and method in ("GET", "HEAD", "DELETE"):
        selector = query.get("fieldSelector", "")
        if selector.startswith(_ONE_NAME) and "," not in selector:
            name = selector.removeprefix(_ONE_NAME)
    verb = _verb(method, bool(route.name), route.watched or truth(query.get("watch", "")))
    return AccessRequest(verb, route.group, route.plural, route.subresource, namespace, name)


def _verb(method: str, is_named: bool, is_watch: bool) -> str:
    if method in ("GET", "HEAD"):
        if is_watch:
            return "watch"
        return "get" if is_named else "list"
    if method == "DELETE":
        return "delete" if is_named else "deletecollection"
    return _VERBS.get(method, method.lower())

# SPDX-License-Identifier: Apache-2.0
"""What a request asks for, in the words of authorization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.authorization.access import AccessRequest
from koord.controlplane.requests import routes
from koord.controlplane.requests.options import truth

if TYPE_CHECKING:
    from koord.kube.transport.messages import Request

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "HEAD": "get"}
_ONE_NAME = "metadata.name="


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

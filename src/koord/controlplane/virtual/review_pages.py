# SPDX-License-Identifier: Apache-2.0
"""Reviews that have a path without a namespace: who one is, what one or somebody may."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from koord.controlplane.api_errors import method_not_allowed
from koord.controlplane.authorization.access import AccessRequest
from koord.controlplane.authorization.account_tokens import AUDIENCE
from koord.controlplane.authorization.identity import ADMINISTRATOR, Identity, identity_of
from koord.controlplane.requests import bodies
from koord.controlplane.virtual.reviews import reviewed_identity, status_of
from koord.kube.transport.messages import Response

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.authorization.account_tokens import AccountTokens
    from koord.controlplane.authorization.rbac import Authorizer
    from koord.kube.transport.messages import Request

    Page = Callable[[Request], Awaitable[Response]]
    Status = Callable[[Identity, Document], Document]

_AUTHORIZATION = "/apis/authorization.k8s.io/v1/"
_AUTHENTICATION = "/apis/authentication.k8s.io/v1/"
TOKEN_REVIEWS = _AUTHENTICATION + "tokenreviews"
_EVERYTHING: Document = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


def review_pages(authorizer: Authorizer) -> dict[str, Page]:
    """Each by its path, but that of tokens.

    Args:
        authorizer: says who may what.
    """

    def own_access(identity: Identity, spec: Document) -> Document:
        return status_of(authorizer.verdict(identity, AccessRequest.of_review(spec)))

    def access(identity: Identity, spec: Document) -> Document:
        del identity
        asked = AccessRequest.of_review(spec)
        return status_of(authorizer.verdict(reviewed_identity(spec), asked))

    def own_rules(identity: Identity, spec: Document) -> Document:
        return _rules(authorizer, identity, spec.get("namespace") or "")

    return {
        _AUTHORIZATION + "selfsubjectaccessreviews": _review(own_access),
        _AUTHORIZATION + "subjectaccessreviews": _review(access),
        _AUTHORIZATION + "selfsubjectrulesreviews": _review(own_rules),
        _AUTHENTICATION + "selfsubjectreviews": _review(lambda who, _: {"userInfo": who.document}),
    }


def token_review(token: str, tokens: AccountTokens) -> Page:
    """Whose a token is.

    Args:
        token: the administrator's.
        tokens: those of service accounts.
    """

    def whose(identity: Identity, spec: Document) -> Document:
        del identity
        given, audiences = spec.get("token"), spec.get("audiences") or [AUDIENCE]
        shown = given.encode("utf-8", "replace") if isinstance(given, str) else b""
        if hmac.compare_digest(shown, token.encode()):
            return {"authenticated": True, "user": ADMINISTRATOR.document}
        found = tokens.identity(given, audiences) if isinstance(given, str) else None
        if found is not None:
            return {"authenticated": True, "user": found.document, "audiences": audiences}
        return {"user": {}, "error": "invalid bearer token"}

    return _review(whose)


def _rules(authorizer: Authorizer, identity: Identity, namespace: str) -> Document:
    if identity.is_master:
        paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        return {"resourceRules": [_EVERYTHING], "nonResourceRules": [paths], "incomplete": False}
    rules = [granted.rule for granted in authorizer.rules_of(identity, namespace)]
    keys = ("verbs", "apiGroups", "resources", "resourceNames")
    return {
        "resourceRules": [
            {key: rule[key] for key in keys if rule.get(key)}
            for rule in rules if rule.get("resources")
        ],
        "nonResourceRules": [
            {key: rule[key] for key in ("verbs", "nonResourceURLs")}
            for rule in rules if rule.get("nonResourceURLs")
        ],
        "incomplete": False,
    }  # fmt: skip


def _review(status: Status) -> Page:
    async def review(request: Request) -> Response:
        if request.method != "POST":
            raise method_not_allowed()
        document = bodies.review(request.body, request.content_type)
        document.setdefault("metadata", {})
        spec = document.get("spec")
        document["status"] = status(identity_of(request), spec if isinstance(spec, dict) else {})
        return Response(201, msgspec.json.encode(document))

    return review

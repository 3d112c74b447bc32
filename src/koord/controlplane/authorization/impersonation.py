# SPDX-License-Identifier: Apache-2.0
"""One acts as another (``kubectl --as``), where roles let them.

Rule: Kubernetes' documentation of user impersonation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from koord.controlplane.api_errors import bad_request, failure
from koord.controlplane.authorization.access import AccessRequest
from koord.controlplane.authorization.identity import (
    ACCOUNT_PREFIX,
    AUTHENTICATED,
    Identity,
    account,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koord.controlplane.authorization.rbac import Authorizer

_USER, _GROUP, _UID = "impersonate-user", "impersonate-group", "impersonate-uid"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_ANONYMOUS, _UNAUTHENTICATED = "system:anonymous", "system:unauthenticated"


def impersonated(
    identity: Identity, headers: Iterable[tuple[str, str]], authorizer: Authorizer
) -> Identity:
    """Who a request counts as.

    Args:
        identity: who sent it.
        headers: all of the request's.
        authorizer: says whether they may.

    Raises:
        ApiError: 400 headers that make no sense; 403 they may not.
    """
    given = [(name.lower(), value) for name, value in headers if name[:1] in "iI"]
    given = [(name, value) for name, value in given if name.startswith("impersonate-")]
    if not given:
        return identity
    users = [value for name, value in given if name == _USER]
    if not users or not users[0]:
        raise bad_request("requested [groups, uid or extra] without impersonating a user")
    wanted = _wanted(users[0], given)
    for access in _needed(wanted, given):
        if not authorizer.verdict(identity, access).allowed:
            raise refused(identity, access)
    return wanted


def refused(identity: Identity, access: AccessRequest) -> Exception:
    """403, in kube-apiserver's words."""
    from koord.kube.errors import StatusDetails

    text = access.refusal_text(identity)
    if not access.resource:
        return failure(403, "Forbidden", f"forbidden: {text}", StatusDetails())
    qualified = f"{access.resource}.{access.group}" if access.group else access.resource
    named = f'{qualified} "{access.name}"' if access.name else qualified
    details = StatusDetails(name=access.name, group=access.group, kind=access.resource)
    return failure(403, "Forbidden", f"{named} is forbidden: {text}", details)


def _wanted(user: str, given: list[tuple[str, str]]) -> Identity:
    groups = tuple(value for name, value in given if name == _GROUP)
    uid = next((value for name, value in given if name == _UID), "")
    extra: dict[str, tuple[str, ...]] = {}
    for name, value in given:
        if name.startswith(_EXTRA):
            key = unquote(name.removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    if user.startswith(ACCOUNT_PREFIX) and not groups:
        namespace, _, own = user.removeprefix(ACCOUNT_PREFIX).partition(":")
        return account(namespace, own, uid, **extra)
    if user == _ANONYMOUS:
        return Identity(user, groups or (_UNAUTHENTICATED,), uid, extra)
    added = () if AUTHENTICATED in groups else (AUTHENTICATED,)
    return Identity(user, groups + added, uid, extra)


def _needed(wanted: Identity, given: list[tuple[str, str]]) -> Iterator[AccessRequest]:
    """All that must be allowed."""
    if wanted.name.startswith(ACCOUNT_PREFIX):
        namespace, _, own = wanted.name.removeprefix(ACCOUNT_PREFIX).partition(":")
        yield AccessRequest("impersonate", "", "serviceaccounts", "", namespace, own)
    else:
        yield AccessRequest("impersonate", "", "users", "", "", wanted.name)
    for name, value in given:
        if name == _GROUP:
            yield AccessRequest("impersonate", "", "groups", "", "", value)
        elif name == _UID:
            yield AccessRequest("impersonate", _AUTHENTICATION, "uids", "", "", value)
        elif name.startswith(_EXTRA):
            key = unquote(name.removeprefix(_EXTRA))
            yield AccessRequest("impersonate", _AUTHENTICATION, "userextras", key, "", value)

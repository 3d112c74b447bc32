# SPDX-License-Identifier: Apache-2.0
"""Who asks.

Reference: docs/controlplane.md#who-may-come-in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.kube.transport.messages import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
ACCOUNT_PREFIX = "system:serviceaccount:"
ACCOUNTS = "system:serviceaccounts"


class Identity(msgspec.Struct, frozen=True):
    """A user, as RBAC and admission see them.

    Attributes:
        name: e.g. ``system:serviceaccount:default:builder``.
        groups: what they belong to.
        uid: empty where it is not known.
        extra: what else is known of them.
    """

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def is_master(self) -> bool:
        """Whether everything is allowed, whatever roles say."""
        return MASTERS in self.groups

    @property
    def document(self) -> dict[str, object]:
        """As reviews show them (``UserInfo``)."""
        found: dict[str, object] = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            found["uid"] = self.uid
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra.items()}
        return found


ADMINISTRATOR = Identity("system:admin", (MASTERS, AUTHENTICATED))
"""Who has the server's own token, and everybody in its process."""


class IdentifiedRequest(Request, frozen=True, gc=False):
    """A request of somebody else than the administrator."""

    identity: Identity = ADMINISTRATOR


def identity_of(request: Request) -> Identity:
    """Who sent a request."""
    return request.identity if isinstance(request, IdentifiedRequest) else ADMINISTRATOR


def identified(request: Request, identity: Identity) -> Request:
    """The same request, sent by somebody."""
    if identity is ADMINISTRATOR or identity == ADMINISTRATOR:
        return request
    return IdentifiedRequest(
        request.method, request.path, request.query, request.body, request.content_type,
        request.accept, request.user_agent, request.timeout_seconds, identity,
    )  # fmt: skip


def of_certificate(certificate: Mapping[str, Any] | None) -> Identity | None:
    """Whose a client's certificate is: the common name a user's, organisations groups.

    Rule: Kubernetes' documentation of authentication, "X.509 client certificates".

    Args:
        certificate: as :meth:`ssl.SSLObject.getpeercert` has it; None or empty for none.
    """
    parts = [part for each in (certificate or {}).get("subject", ()) for part in each]
    names = [text for name, text in parts if name == "commonName"]
    if not names or not names[-1]:
        return None
    groups = tuple(text for name, text in parts if name == "organizationName")
    return Identity(names[-1], (*groups, AUTHENTICATED))


def account(namespace: str, name: str, uid: str = "", **extra: tuple[str, ...]) -> Identity:
    """A service account.

    Args:
        namespace: its own.
        name: its own.
        uid: of the object.
        extra: what its token says of the pod that has it.
    """
    groups = (ACCOUNTS, f"{ACCOUNTS}:{namespace}", AUTHENTICATED)
    return Identity(f"{ACCOUNT_PREFIX}{namespace}:{name}", groups, uid, extra)

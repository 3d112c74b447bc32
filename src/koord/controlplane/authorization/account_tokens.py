# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts: signed, bound to what they were asked for, good for a time.

A token is a JSON Web Token (RFC 7519), signed with HMAC-SHA-256 by a key that only this server has.
It ends with its time, and with the account or pod that it names. Reference:
docs/controlplane.md#who-may-come-in.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from koord.controlplane.authorization.identity import account

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.clock import Clock
    from koord.base.documents import Document
    from koord.controlplane.authorization.identity import Identity
    from koord.controlplane.extension import Reader

AUDIENCE = "https://kubernetes.default.svc"
_HEADER = b'{"alg":"HS256","typ":"JWT"}'
_MAX_CHARACTERS = 8_192
_KUBERNETES = "kubernetes.io"
_EXTRA = "authentication.kubernetes.io/"


class AccountTokens:
    """Signs tokens, and says whose one is.

    Args:
        key: secret; the same after a restart where tokens are to last.
        reader: accounts, pods and nodes.
        clock: the time.
    """

    def __init__(self, key: bytes, reader: Reader, clock: Clock) -> None:
        self._key, self._reader, self._clock = key, reader, clock

    def sign(
        self, service_account: Document, audiences: Sequence[str], seconds: int, bound: Document
    ) -> str:
        """A token.

        Args:
            service_account: whose.
            audiences: who may accept it.
            seconds: how long it is good.
            bound: the pod that it ends with, ``{"pod": {"name": ..., "uid": ...}}`` and perhaps its
                node; empty for none.
        """
        meta, now = service_account["metadata"], int(self._clock.wall_seconds())
        named = {"name": meta["name"], "uid": meta.get("uid", "")}
        claims = {
            "iss": AUDIENCE, "jti": secrets.token_hex(16), "aud": list(audiences),
            "iat": now, "exp": now + seconds,
            "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
            _KUBERNETES: {"namespace": meta["namespace"], "serviceaccount": named, **bound},
        }  # fmt: skip
        signed = b".".join((_packed(_HEADER), _packed(msgspec.json.encode(claims))))
        return b".".join((signed, _packed(self._signature(signed)))).decode()

    def identity(self, token: str, audiences: Sequence[str] = (AUDIENCE,)) -> Identity | None:
        """Whose a token is; None for one that is not ours, not good any more, or for others.

        Args:
            token: as a client presents it.
            audiences: one of which it must be for.
        """
        claims = self._claims(token)
        if claims is None or self._clock.wall_seconds() >= claims["exp"]:
            return None
        if not set(audiences) & set(claims["aud"]):
            return None
        return self._of(claims[_KUBERNETES], claims["jti"])

    def _claims(self, token: str) -> dict[str, Any] | None:
        if len(token) > _MAX_CHARACTERS or token.count(".") != 2 or not token.isascii():
            return None
        signed, _, signature = token.encode().rpartition(b".")
        if not hmac.compare_digest(_packed(self._signature(signed)), signature):
            return None
        try:
            # Only what was signed here gets so far.
            claims: dict[str, Any] = msgspec.json.decode(_unpacked(signed.partition(b".")[2]))
        except (binascii.Error, msgspec.DecodeError):
            return None
        return claims

    def _of(self, bound: Document, token_id: str) -> Identity | None:
        namespace, named = bound["namespace"], bound["serviceaccount"]
        if not self._exists("serviceaccounts", namespace, named):
            return None
        extra = {f"{_EXTRA}credential-id": (f"JTI={token_id}",)}
        for kind, plural, where in (("pod", "pods", namespace), ("node", "nodes", "")):
            other = bound.get(kind)
            if other is None:
                continue
            if kind == "pod" and not self._exists(plural, where, other):
                return None
            extra[f"{_EXTRA}{kind}-name"] = (other["name"],)
            if other.get("uid"):
                extra[f"{_EXTRA}{kind}-uid"] = (other["uid"],)
        return account(namespace, named["name"], named["uid"], **extra)

    def _exists(self, storage: str, namespace: str, named: Document) -> bool:
        found = self._reader.document(storage, namespace, named["name"])
        return found is not None and found["metadata"].get("uid", "") == named.get("uid", "")

    def _signature(self, signed: bytes) -> bytes:
        return hmac.new(self._key, signed, hashlib.sha256).digest()


def _packed(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _unpacked(data: bytes) -> bytes:
    return base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))

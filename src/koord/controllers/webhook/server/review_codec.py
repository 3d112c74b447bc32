# SPDX-License-Identifier: Apache-2.0
"""AdmissionReviews as they cross the wire: ``admission.k8s.io/v1`` and ``v1beta1``.

The objects inside stay bytes; the answer is in the version of the question.
Rule: docs/reference/admission.md#webhooks.
"""

from __future__ import annotations

import base64
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api import codec
from koord.base.errors import KoordError, one_line
from koord.controllers.webhook.framework.admission_request import (
    AdmissionRequest,
    Operation,
    Requester,
    ResourceName,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.documents import Document
    from koord.controllers.webhook.framework.admission_decision import AdmissionDecision

API_VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
KIND = "AdmissionReview"
MAX_WARNINGS, MAX_WARNING_CHARACTERS = 10, 250
"""An API server cuts what is longer, and all of them from 4,096 characters on."""

_NO_RAW = msgspec.Raw(b"null")
_REASONS = {
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
}


class _ReviewedKind(msgspec.Struct, gc=False):
    group: str = ""
    version: str = ""
    kind: str = ""


class _ReviewedResource(msgspec.Struct, gc=False):
    group: str = ""
    version: str = ""
    resource: str = ""


class _ReviewUser(msgspec.Struct, gc=False):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = ()


class _ReviewRequest(msgspec.Struct, rename="camel"):
    uid: str = ""
    kind: _ReviewedKind = msgspec.field(default_factory=_ReviewedKind)
    resource: _ReviewedResource = msgspec.field(default_factory=_ReviewedResource)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: Operation = Operation.CREATE
    user_info: _ReviewUser = msgspec.field(default_factory=_ReviewUser)
    object: msgspec.Raw = _NO_RAW
    old_object: msgspec.Raw = _NO_RAW
    dry_run: bool | None = False


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _ReviewRequest | None = None


_DECODER = msgspec.json.Decoder(_Review)


def decode(body: bytes) -> tuple[str, AdmissionRequest]:
    """The version of a review, and what it asks.

    Raises:
        KoordError: it is no JSON, no review, of another version, or asks nothing.
    """
    try:
        review = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        expected = f"a review as Kubernetes describes it ({one_line(str(error))})"
        raise KoordError(KIND, "", "one of another form", expected) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise codec.malformed(body, KIND, "", error) from None
    if review.kind != KIND:
        raise KoordError(KIND, "kind", review.kind, KIND)
    if review.api_version not in API_VERSIONS:
        raise KoordError(KIND, "apiVersion", review.api_version, " or ".join(API_VERSIONS))
    if review.request is None:
        raise KoordError(KIND, "request", None, "what is to be judged")
    if not review.request.uid:
        raise KoordError(KIND, "request.uid", "", "a uid, which comes back in the answer")
    return review.api_version, _request(review.request)


def request_of(review: Document) -> AdmissionRequest:
    """What a review asks that an API server in the same process has made: one as it has to be."""
    asked: Document = review["request"]
    kind, resource, user = asked["kind"], asked["resource"], asked["userInfo"]
    return AdmissionRequest(
        uid=asked["uid"],
        operation=Operation(asked["operation"]),
        kind=kind["kind"],
        resource=ResourceName(
            resource["group"], resource["resource"], asked.get("subResource") or ""
        ),
        version=resource["version"],
        namespace=asked.get("namespace") or "",
        name=asked.get("name") or "",
        requester=Requester(
            user["username"], user.get("uid") or "", tuple(user.get("groups") or ())
        ),
        dry_run=bool(asked.get("dryRun")),
        raw_object=_json(asked.get("object")),
        raw_old_object=_json(asked.get("oldObject")),
    )


def encode(
    api_version: str,
    uid: str,
    decision: AdmissionDecision,
    operations: Sequence[dict[str, Any]] = (),
) -> bytes:
    """The review that answers, as JSON; see :func:`response`."""
    return codec.to_json(response(api_version, uid, decision, operations))


def response(
    api_version: str,
    uid: str,
    decision: AdmissionDecision,
    operations: Sequence[dict[str, Any]] = (),
) -> Document:
    """The review that answers.

    Args:
        api_version: of the question.
        uid: of the request.
        decision: the answer.
        operations: JSON patch; empty for none, which an answer must not mention then.
    """
    found: Document = {"uid": uid, "allowed": decision.allowed}
    if not decision.allowed:
        found["status"] = {
            "status": "Failure",
            "message": decision.message,
            "reason": _REASONS.get(HTTPStatus(decision.status), ""),
            "code": int(decision.status),
        }
    elif operations:
        found["patchType"] = "JSONPatch"
        found["patch"] = base64.b64encode(codec.to_json(operations)).decode("ascii")
    if decision.warnings:
        cut = [one_line(text)[:MAX_WARNING_CHARACTERS] for text in decision.warnings]
        found["warnings"] = cut[:MAX_WARNINGS]
    return {"kind": KIND, "apiVersion": api_version, "response": found}


def _request(request: _ReviewRequest) -> AdmissionRequest:
    user = request.user_info
    return AdmissionRequest(
        uid=request.uid,
        operation=request.operation,
        kind=request.kind.kind,
        resource=ResourceName(
            request.resource.group, request.resource.resource, request.sub_resource
        ),
        version=request.resource.version,
        namespace=request.namespace,
        name=request.name,
        requester=Requester(user.username, user.uid, user.groups or ()),
        dry_run=bool(request.dry_run),
        raw_object=_bytes(request.object),
        raw_old_object=_bytes(request.old_object),
    )


def _json(item: Document | None) -> bytes | None:
    return None if item is None else codec.to_json(item)


def _bytes(raw: msgspec.Raw) -> bytes | None:
    data = bytes(raw)
    return None if data == b"null" else data

# SPDX-License-Identifier: Apache-2.0
"""``AdmissionReview``: what a webhook is asked, and what its answer means."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base.documents import Document
from koord.controlplane.api_errors import failure
from koord.controlplane.cel.access_checks import authorizer
from koord.kube.errors import ApiError, Status

if TYPE_CHECKING:
    from koord.controlplane.extension import Attributes
    from koord.controlplane.resource import Context, Resource


VERSIONS = ("v1", "v1beta1")
_GROUP = "admission.k8s.io"
_KINDS_OF_OPTIONS = {
    "CREATE": "CreateOptions",
    "UPDATE": "UpdateOptions",
    "DELETE": "DeleteOptions",
}


class ReviewError(Exception):
    """An answer that is no valid review; counts as a failed call."""


@dataclass(frozen=True)
class ReviewResponse:
    """An answer that was understood.

    Attributes:
        patch: JSON Patch; empty for none.
        refusal: what the request is refused with; None where it is allowed.
    """

    patch: bytes
    warnings: tuple[str, ...]
    refusal: ApiError | None


def request(
    webhook: Document, attributes: Attributes, as_resource: Resource, uid: str, mutating: bool
) -> Document:
    """The review that is sent: in the first version of the webhook's list that is known here."""
    about, item = _about(attributes, as_resource), _as_version(attributes.document, as_resource)
    if mutating and attributes.operation == "CREATE" and item and not attributes.subresource:
        # Uid, time and generated name come after mutation.
        late = ("uid", "creationTimestamp", *["name"] * attributes.has_generated_name)
        meta = {key: value for key, value in item["metadata"].items() if key not in late}
        item = {**item, "metadata": meta}
        if attributes.has_generated_name:
            about.pop("name", None)
    version = next(v for v in webhook["admissionReviewVersions"] if v in VERSIONS)
    return {
        "kind": "AdmissionReview",
        "apiVersion": f"{_GROUP}/{version}",
        "request": {
            "uid": uid,
            **about,
            "object": item,
            "oldObject": _as_version(attributes.old, as_resource),
        },
    }


def variables_of(attributes: Attributes, as_resource: Resource) -> Document:
    """What expressions of webhooks and policies see of a write, by name."""
    asked = attributes.resource
    return {
        "authorizer": authorizer(
            asked.group, asked.plural, attributes.subresource, attributes.namespace, attributes.name
        ),
        "namespaceObject": None,
        "object": _as_version(attributes.document, as_resource),
        "oldObject": _as_version(attributes.old, as_resource),
        "request": _about(attributes, as_resource),
    }


def _about(attributes: Attributes, as_resource: Resource) -> Document:
    """The request without its objects."""
    context, asked = attributes.context, attributes.resource
    options = attributes.options or {
        "kind": _KINDS_OF_OPTIONS.get(attributes.operation, "CreateOptions"),
        "apiVersion": "meta.k8s.io/v1",
    }
    return {
        "kind": _kind(as_resource, attributes),
        "resource": _resource(as_resource),
        **({"subResource": attributes.subresource} if attributes.subresource else {}),
        "requestKind": _kind(asked, attributes),
        "requestResource": _resource(asked),
        **({"requestSubResource": attributes.subresource} if attributes.subresource else {}),
        **({"name": attributes.name} if attributes.name else {}),
        **({"namespace": attributes.namespace} if attributes.namespace else {}),
        "operation": attributes.operation,
        "userInfo": _user_info(context),
        "dryRun": context.dry_run,
        "options": options,
    }


def _user_info(context: Context) -> Document:
    found: Document = {"username": context.user, "groups": list(context.groups)}
    if context.uid:
        found["uid"] = context.uid
    if context.extra:
        found["extra"] = {key: list(values) for key, values in context.extra.items()}
    return found


def response_of(name: str, review: Any, sent: Document, mutating: bool) -> ReviewResponse:
    """What an answer means.

    Args:
        name: of the webhook.
        sent: the review that was sent.

    Raises:
        ReviewError: it is none, or about another request.
    """
    if not isinstance(review, dict):
        raise ReviewError("webhook response was absent")
    response = review.get("response")
    if not isinstance(response, dict):
        raise ReviewError("webhook response was absent")
    if sent["apiVersion"] == f"{_GROUP}/v1":
        _check(review, response, sent["request"]["uid"], mutating)
    patch = b""
    if mutating and response.get("patch"):
        try:
            patch = base64.b64decode(response["patch"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ReviewError("illegal base64 data in response.patch") from None
    refusal = None if response.get("allowed") else _refusal(name, response)
    return ReviewResponse(patch, tuple(response.get("warnings") or ()), refusal)


def _check(review: Document, response: Document, uid: str, mutating: bool) -> None:
    if response.get("uid") != uid:
        raise ReviewError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    given = f"{review.get('apiVersion', '')}, Kind={review.get('kind', '')}"
    if given != f"{_GROUP}/v1, Kind=AdmissionReview":
        expected = f"{_GROUP}/v1, Kind=AdmissionReview"
        raise ReviewError(f"expected webhook response of {expected}, got {given}")
    has_patch, patch_type = bool(response.get("patch")), response.get("patchType")
    if not mutating:
        if has_patch:
            raise ReviewError("validating webhook may not return response.patch")
        if patch_type is not None:
            raise ReviewError("validating webhook may not return response.patchType")
    elif has_patch and patch_type is None:
        raise ReviewError("webhook returned response.patch but not response.patchType")
    elif not has_patch and patch_type is not None:
        raise ReviewError("webhook returned response.patchType but not response.patch")
    elif has_patch and patch_type != "JSONPatch":
        raise ReviewError(f'unsupported patch type "{patch_type}"')


def _refusal(name: str, response: Document) -> ApiError:
    """The webhook's status, as an error status in any case, with its name put before."""
    try:
        status = msgspec.convert(response.get("status") or {}, Status)
    except msgspec.ValidationError:
        status = Status()
    denied = f'admission webhook "{name}" denied the request'
    said = status.message or status.reason
    code = status.code if status.code >= 400 else 400
    message = f"{denied}: {said}" if said else f"{denied} without explanation"
    return failure(code, status.reason, message, status.details)


def _kind(resource: Resource, attributes: Attributes) -> Document:
    """The kind of what was sent: bindings and evictions are none of the main resource's."""
    document = attributes.document or {}
    if attributes.subresource and document.get("kind", resource.kind) != resource.kind:
        group, _, version = document.get("apiVersion", "v1").rpartition("/")
        return {"group": group, "version": version, "kind": document["kind"]}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource(resource: Resource) -> Document:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _as_version(document: Document | None, resource: Resource) -> Document | None:
    if document is None or document.get("kind", resource.kind) != resource.kind:
        return document
    return {**document, "apiVersion": resource.api_version, "kind": resource.kind}

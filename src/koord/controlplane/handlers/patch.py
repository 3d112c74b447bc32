# SPDX-License-Identifier: Apache-2.0
"""The verb patch: chooses the patch type and takes its outcome through an update."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane import patching
from koord.controlplane.api_errors import (
    bad_request,
    conflict,
    failure,
    forbidden_field,
    not_found,
    required,
    stored_too_large,
    unpatchable,
    unsupported_media_type,
)
from koord.controlplane.handlers.metadata import metadata_of
from koord.controlplane.handlers.write import ignored_fields
from koord.controlplane.requests import options
from koord.controlplane.requests.bodies import plain, weight_bytes
from koord.controlplane.schema import CoreSchema
from koord.controlplane.storage import conversion
from koord.controlplane.storage.store import OBJECT_LIMIT_BYTES
from koord.kube.errors import StatusDetails
from koord.kube.transport.messages import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.base.documents import Document
    from koord.controlplane.handlers.write import RequestTarget, Verbs, WriteResult
    from koord.controlplane.resource import Context, Resource
    from koord.kube.transport.messages import Request

_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


class Patches:
    """Patches objects."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def patch(
        self, target: RequestTarget, request: Request, query: Mapping[str, str], context: Context
    ) -> WriteResult:
        """Changes an object by a patch.

        Raises:
            ApiError: 404, 415, 422, and what the patch, admission or checks say.
        """
        media = request.content_type.partition(";")[0].strip()
        if media not in _TYPES:
            raise failure(415, "UnsupportedMediaType", "415: Unsupported Media Type",
                          StatusDetails())  # fmt: skip
        if media == STRATEGIC_MERGE_PATCH and not isinstance(target.resource.schema, CoreSchema):
            accepted = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
            raise unsupported_media_type(media, accepted)
        if media == APPLY_PATCH:
            return await self._apply(target, request, query, context)
        if "force" in query:
            why = "may not be specified for non-apply patch"
            options.refuse("PatchOptions", [forbidden_field("force", why)])
        told: list[str] = []

        def make(current: Document) -> Document:
            patched = _patched(media, request.body, current, target.resource)
            _check_size(patched, current)
            told[:] = self._pruned(patched, target.resource, query)
            return patched

        given = options.of_write("PUT", query)  # As webhooks see it, a patch is an update.
        weight = len(request.body)
        if media == JSON_PATCH and patching.may_copy(request.body):
            weight += patching.MAX_COPIED_BYTES
        written = await self._verbs.update(target, make, context, given, weight_bytes=weight)
        written.warnings = told + written.warnings
        return written

    async def _apply(
        self, target: RequestTarget, request: Request, query: Mapping[str, str], context: Context
    ) -> WriteResult:
        """Server-side apply; creates the object where there is none."""
        manager = query.get("fieldManager", "")
        if not manager:
            why = "is required for apply patch"
            options.refuse("PatchOptions", [required("fieldManager", why)])
        resource, force = target.resource, options.truth(query.get("force", ""))
        worker, weight = self._verbs.worker, weight_bytes(request.body)
        applied = await worker.call(weight, plain, request.body, "application/yaml")
        _check_applied(applied, target)
        told: list[str] = []

        def make(current: Document | None) -> Document:
            merged = patching.apply(
                current, applied, manager, force, resource.schema, context,
                subresource=target.subresource, ignored=ignored_fields(target),
            )  # fmt: skip
            _check_size(merged, current)
            told[:] = self._pruned(merged, resource, query)
            return merged

        if self._verbs.entry(target) is None:
            if target.subresource:
                raise not_found(resource, target.name)
            if uid := applied["metadata"].get("uid"):
                why = (
                    f"uid mismatch: the provided object specified uid {uid}, and no existing "
                    "object was found"
                )
                raise conflict(resource, target.name, why)
            given = options.of_write("POST", query)
            document = await worker.call(weight, make, None)
            written = await self._verbs.create(
                target, document, context, given, tracked=True, weight_bytes=weight
            )
        else:
            given = options.of_write("PUT", query)
            written = await self._verbs.update(
                target, make, context, given, tracked=True, weight_bytes=weight
            )
        written.warnings = told + written.warnings
        return written

    def _pruned(
        self, document: Document, resource: Resource, query: Mapping[str, str]
    ) -> list[str]:
        """Drops unknown fields; gives the warnings, or refuses, as ``fieldValidation`` says."""
        validation = query.get("fieldValidation") or "Warn"
        told = [f'unknown field "{path}"' for path in resource.schema.prune(document)]
        if told and validation == "Strict":
            raise unpatchable(f"strict decoding error: {', '.join(told)}")
        return told if validation == "Warn" else []


def _check_size(patched: Document, current: Document | None) -> None:
    """Refuses what is too large to be stored before anything more is made of it.

    Raises:
        ApiError: 413.
    """
    size = len(conversion.encode(patched))
    if size > OBJECT_LIMIT_BYTES and (current is None or size > len(conversion.encode(current))):
        name = metadata_of(patched).get("name", "")
        raise stored_too_large(patched.get("kind", ""), name, size, OBJECT_LIMIT_BYTES)


def _patched(media: str, body: bytes, current: Document, resource: Resource) -> Document:
    if media == MERGE_PATCH:
        return patching.merge_patch(current, body)
    if media == JSON_PATCH:
        return patching.json_patch(current, body)
    return patching.strategic_merge_patch(current, body, resource.schema)


def patched_scale(scale: Document, request: Request) -> Document:
    """A ``Scale`` changed by the patch of a request.

    Raises:
        ApiError: 415, or what the patch says.
    """
    media = request.content_type.partition(";")[0].strip()
    if media in (MERGE_PATCH, STRATEGIC_MERGE_PATCH):  # No list in it, so they are the same.
        return patching.merge_patch(scale, request.body)
    if media == JSON_PATCH:
        return patching.json_patch(scale, request.body)
    raise unsupported_media_type(media, (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH))


def _check_applied(applied: Document, target: RequestTarget) -> None:
    resource = target.resource
    api_version, kind = applied.get("apiVersion", ""), applied.get("kind", "")
    if not api_version or not kind:
        group_version = api_version if "/" in str(api_version) else f"/{api_version}"
        raise bad_request(f"invalid object type: {group_version}, Kind={kind}")
    if (api_version, kind) != (resource.api_version, resource.kind):
        raise bad_request(f"{kind} in version \"{api_version}\" cannot be handled as a "
                          f"{resource.kind}")  # fmt: skip
    meta = applied.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise bad_request("metadata: expected an object")
    name = meta.setdefault("name", target.name)
    if name != target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL "
                          f"({target.name})")  # fmt: skip
    if resource.namespaced:
        meta.setdefault("namespace", target.namespace)

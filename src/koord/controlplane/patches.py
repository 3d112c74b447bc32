# SPDX-License-Identifier: Apache-2.0
"""The verb patch: chooses the patch type and takes its outcome through an update."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane import patching
from koord.controlplane.failures import bad_request, failure, unsupported_media_type
from koord.kube.errors import StatusDetails
from koord.kube.messages import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controlplane.resource import Context, Document, Resource
    from koord.controlplane.verbs import Target, Verbs, Written
    from koord.kube.messages import Request

_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


class Patches:
    """Patches objects."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def patch(
        self, target: Target, request: Request, query: Mapping[str, str], context: Context
    ) -> Written:
        """Changes an object by a patch.

        Raises:
            ApiError: 404, 415, and what the patch, admission or checks say.
        """
        media = request.content_type.partition(";")[0].strip()
        validation = query.get("fieldValidation") or "Warn"
        warnings: list[str] = []

        def make(current: Document) -> Document:
            patched = _patched(media, request.body, current, target.resource)
            unknown = target.resource.schema.prune(patched)
            _tell(unknown, validation, warnings)
            return patched

        written = await self._verbs.update(target, make, context)
        written.warnings = list(dict.fromkeys(warnings)) + written.warnings
        return written


def _patched(media: str, body: bytes, current: Document, resource: Resource) -> Document:
    if media == MERGE_PATCH:
        return patching.merge_patch(current, body)
    if media == JSON_PATCH:
        return patching.json_patch(current, body)
    if media == STRATEGIC_MERGE_PATCH and hasattr(resource.schema, "shape"):
        return patching.strategic_merge_patch(current, body, resource.schema)
    if media in _TYPES:
        raise unsupported_media_type(media, _TYPES)
    raise failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", StatusDetails())


def _tell(unknown: list[str], validation: str, warnings: list[str]) -> None:
    told = [f'unknown field "{path}"' for path in unknown]
    if told and validation == "Strict":
        raise bad_request(f"strict decoding error: {', '.join(told)}")
    if validation == "Warn":
        warnings += told

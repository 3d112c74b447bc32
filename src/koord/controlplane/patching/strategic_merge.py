# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches as requests bring them; what they mean is
:mod:`koord.api.patching.strategic_merge`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.patching.strategic_merge import PatchError, strategic_merge
from koord.controlplane.api_errors import bad_request, failure, unsupported_media_type
from koord.controlplane.patching.bodies import copied, read_object
from koord.controlplane.schema.builtin.core_schema import CoreSchema
from koord.kube.transport.messages import APPLY_PATCH, JSON_PATCH, MERGE_PATCH

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.resource import Schema


def strategic_merge_patch(document: Document, body: bytes, schema: Schema) -> Document:
    """The document with a strategic merge patch applied.

    Raises:
        ApiError: 400, the body is no JSON object or a directive is malformed; 415, the kind is
            not a core one; 500, a directive contradicts the patch (as a kube-apiserver has it).
    """
    if not isinstance(schema, CoreSchema):
        raise unsupported_media_type("", [JSON_PATCH, MERGE_PATCH, APPLY_PATCH])
    patch = read_object(body)
    try:
        return strategic_merge(copied(document), patch or {}, schema.shape)
    except PatchError as error:
        if error.is_malformed:
            raise bad_request(str(error)) from None
        # A kube-apiserver has no better status for it.
        raise failure(500, "", str(error)) from None

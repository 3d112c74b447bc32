# SPDX-License-Identifier: Apache-2.0
"""The patch types of Kubernetes, as functions from documents to documents.

None of them changes what it is given, nor gives anything that shares parts with it; all refuse with
:class:`koord.kube.errors.ApiError`. What they give is not yet checked: the server prunes, defaults
and validates it.
"""

from koord.controlplane.patching.apply import apply, track_update
from koord.controlplane.patching.json_patches import (
    MAX_COPIED_BYTES,
    MAX_OPERATIONS,
    json_patch,
    may_copy,
    merge_patch,
    strategic_merge_patch,
)

__all__ = [
    "MAX_COPIED_BYTES",
    "MAX_OPERATIONS",
    "apply",
    "json_patch",
    "may_copy",
    "merge_patch",
    "strategic_merge_patch",
    "track_update",
]

# SPDX-License-Identifier: Apache-2.0
"""How subresources with rules of their own are plugged into the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.base.documents import Document

if TYPE_CHECKING:
    from koord.controlplane.handlers.write import Verbs
    from koord.controlplane.resource import Context, Resource


@dataclass(frozen=True)
class SubresourceRequest:
    """One request to a subresource that has a handler of its own.

    Attributes:
        method: GET, POST, PUT, PATCH or DELETE.
        resource: the main resource, e.g. pods.
        namespace: of the object, "" if cluster-wide.
        name: of the object.
        document: the body as sent, unchecked; None where there is none.
        query: parameters, the last of each name.
        subresource: e.g. ``binding``.
        verbs: to read and change objects; ``verbs.change`` is read, change, store as one step.
    """

    method: str
    resource: Resource
    namespace: str
    name: str
    document: Document | None
    query: Mapping[str, str]
    context: Context
    verbs: Verbs
    subresource: str = ""


Handler = Callable[[SubresourceRequest], Awaitable[tuple[int, Document]]]
"""Answers a subresource call with HTTP status and document, or raises ApiError."""

Handlers = Mapping[tuple[str, str], Handler]
"""By storage and subresource, e.g. ``("pods", "binding")``."""

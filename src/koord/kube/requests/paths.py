# SPDX-License-Identifier: Apache-2.0
"""Where objects live on an API server."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.api.kinds.registry import Kind

# Most names: nothing in them need be quoted, and none is a step in a path.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*").fullmatch


@lru_cache(maxsize=1024)
def collection_path(kind: Kind, namespace: str = "") -> str:
    """The path of all objects of a kind, in one namespace or (empty) in all.

    Raises:
        KoordError: a namespace for a kind that has none, or one that cannot be part of a path.
    """
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if not namespace:
        return f"{root}/{kind.plural}"
    if not kind.namespaced:
        raise KoordError(kind.name, "namespace", namespace, "none: the kind has no namespaces")
    return f"{root}/namespaces/{_segment(kind, 'namespace', namespace)}/{kind.plural}"


def object_path(kind: Kind, name: str, namespace: str = "", subresource: str = "") -> str:
    """The path of one object, or of a part of it.

    Raises:
        KoordError: no name, no namespace where the kind needs one, or one that cannot be part of
            a path.
    """
    if kind.namespaced and not namespace:
        raise KoordError(f"{kind.name} {name}".strip(), "namespace", "", "the object's namespace")
    path = f"{collection_path(kind, namespace)}/{_segment(kind, 'name', name)}"
    return f"{path}/{subresource}" if subresource else path


def _segment(kind: Kind, field: str, text: str) -> str:
    """One part of a path. The rule is apimachinery's for path segment names."""
    if _PLAIN(text):
        return text
    if text in ("", ".", "..") or "/" in text or "%" in text:
        expected = f"a {field} without / and %, and neither . nor .."
        raise KoordError(kind.name, field, text, expected)
    return quote(text, safe="")

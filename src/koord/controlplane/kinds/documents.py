# SPDX-License-Identifier: Apache-2.0
"""How strategies read documents: sections that may be missing, conditions, parts to carry over."""

from __future__ import annotations

from koord.base.documents import Document

NO_DOCUMENT: Document = {}
NONE = "<none>"


def section(document: Document, *names: str) -> Document:
    """The mapping at a path; an empty one, not to be changed, where there is none."""
    for name in names:
        document = document.get(name) or NO_DOCUMENT
    return document


def condition(document: Document, kind: str) -> Document | None:
    """The condition of a type in ``status.conditions``."""
    for entry in section(document, "status").get("conditions") or ():
        if entry.get("type") == kind:
            found: Document = entry
            return found
    return None


def condition_is_true(document: Document, kind: str) -> bool:
    """Whether a condition is there with status ``True``."""
    entry = condition(document, kind)
    return entry is not None and entry.get("status") == "True"


def bring(document: Document, old: Document, key: str) -> None:
    """Puts a part of the old document in place of the new one's."""
    if key in old:
        document[key] = old[key]
    else:
        document.pop(key, None)

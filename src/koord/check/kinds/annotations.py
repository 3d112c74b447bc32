# SPDX-License-Identifier: Apache-2.0
"""Annotations that hold JSON: whether it can be read, and keys in it that nobody reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import codec
from koord.api.casefold import unknown_keys
from koord.api.protocol import annotation
from koord.api.protocol.documents import DOCUMENTS
from koord.base.errors import KoordError, nearest
from koord.check.problem import Finding
from koord.check.registry import ANY, checker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject


@checker(ANY)
def documents(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """Each JSON annotation of any object, and of any pod template."""
    del world
    metadata = subject.document.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    for key, text in found.items() if isinstance(found, dict) else ():
        if key in DOCUMENTS and isinstance(text, str) and text:
            yield from document_findings(key, text, annotation.field_of(key))


def document_findings(key: str, text: str, field: str) -> Iterator[Finding]:
    """What is wrong with the JSON text of an annotation.

    Args:
        key: the annotation's.
        text: its value.
        field: where the text stands.
    """
    kind = DOCUMENTS[key]
    try:
        annotation.parse(text, kind, "", field)
        document = codec.parse_json(text, "", field)
    except KoordError as error:
        yield Finding.of(error)
        return
    for path, name, known in unknown_keys(document, kind):
        guess = nearest(name, known)
        expected = f"a known key, such as {guess}" if guess else f"one of {', '.join(known)}"
        where = f"{field}{path}" if path.startswith("[") else f"{field}.{path}"
        yield Finding.warning(where, name, expected)

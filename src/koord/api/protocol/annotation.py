# SPDX-License-Identifier: Apache-2.0
"""Reading and writing of JSON annotations: the one way all accessors go.

Unknown keys are ignored, keys match without regard to case, ``null`` means absent, and malformed
JSON or a wrong type is a KoordError that names the object and the annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from koord.api import codec
from koord.api.casefold import fold_keys

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object

T = TypeVar("T")


def read(obj: Object, key: str, kind: type[T], *, empty_is_absent: bool = False) -> T | None:
    """The value of a JSON annotation, or None if the object has no such annotation.

    Args:
        obj: the object.
        key: the annotation's key.
        kind: the type of the value.
        empty_is_absent: whether empty text counts as no annotation instead of malformed JSON.

    Raises:
        KoordError: malformed JSON, or a field of the wrong type.
    """
    text = obj.metadata.annotations.get(key)
    if text is None or (empty_is_absent and not text):
        return None
    return parse(text, kind, obj.title, field_of(key))


def parse(text: str, kind: type[T], object_name: str, field: str) -> T:
    """The value of JSON text that people or peers wrote; see :func:`read`."""
    document = codec.without_nulls(codec.parse_json(text, object_name, field), object_name)
    if document is None:
        # A literal null leaves the value as it was made, which is empty.
        document = [] if getattr(kind, "__origin__", kind) is list else {}
    return codec.convert(fold_keys(document, kind), kind, object_name, field)


def canonical(text: str, kind: type[T]) -> T | None:
    """The value of text that is just as :func:`text` makes it; None for any other text.

    What can be read leniently is read faster so, and to the same value.
    """
    try:
        found: T = codec.decoder(kind).decode(text)  # type: ignore[arg-type]
    except (ValueError, RecursionError):
        return None
    return found if codec.to_json(found) == text.encode() else None


def text(value: Any) -> str:
    """The JSON text of a value, as it is put into an annotation."""
    return codec.to_json(value).decode()


def field_of(key: str) -> str:
    """How errors name an annotation."""
    return f"annotations[{key}]"

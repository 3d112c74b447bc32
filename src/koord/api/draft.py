# SPDX-License-Identifier: Apache-2.0
"""Changes to an object that keep every field koord has no name for.

The typed objects hold only what koord uses. A :class:`Draft` keeps the document an object came from
beside it; what was changed in the typed object is merged into that document, so that fields of
other programs survive at every level, inside lists too.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from koord.api import codec, guide
from koord.api.kinds.meta import Object
from koord.api.kinds.registry import kind_of_type
from koord.api.objects import find_kind

O = TypeVar("O", bound=Object)  # noqa: E741

# What tells the items of a list apart, tried in this order; all items must have it, none twice.
_IDENTITIES = (
    ("uid",),
    ("namespace", "name"),
    ("name",),
    ("key", "effect"),
    ("type", "minor"),
    ("type",),
    ("key",),
    ("id",),
    ("minor",),
    ("numaNodeID",),
    ("topologyLayer",),
    ("containerName",),
    ("topologyDomain",),
    ("nodeName",),
)


class Draft(Generic[O]):
    """An object that is going to be changed and written back.

    Args:
        data: the object as JSON text or as a plain document; a document is not changed.
        object_type: its type; None to choose by kind.
        object_name: what errors call it.

    Raises:
        KoordError: the data does not decode.

    Attributes:
        object: the typed object, to be changed in place.
    """

    object: O

    def __init__(
        self,
        data: bytes | str | dict[str, Any],
        object_type: type[O] | None = None,
        object_name: str = "object",
    ) -> None:
        document = data if isinstance(data, dict) else codec.parse_json(data, object_name)
        kind = kind_of_type(object_type) if object_type else find_kind(document, object_name)
        self._submitted = codec.without_nulls(document, object_name)
        self._original = self._submitted
        chosen: type[Any] = object_type or (kind.type if kind else Object)
        if kind is not None:
            self._original = guide.normalise(self._submitted, kind, object_name)
        self.object = codec.convert(self._original, chosen, object_name)
        self._before = codec.to_document(self.object)

    def document(self) -> dict[str, Any]:
        """The whole object with the changes, in canonical form."""
        after = codec.to_document(self.object)
        merged: dict[str, Any] = merge(self._original, self._before, after)
        return merged

    def encode(self) -> bytes:
        """The JSON text of :meth:`document`."""
        return codec.to_json(self.document())

    def merge_patch(self) -> dict[str, Any]:
        """The JSON merge patch (RFC 7386) from the submitted object to the changed one."""
        return merge_patch(self._submitted, self.document())


def merge(original: Any, before: Any, after: Any) -> Any:
    """The original with the difference between two typed views of it applied.

    Args:
        original: a document.
        before: what its typed form encoded to, unchanged.
        after: what its typed form encodes to now.

    Returns:
        A new document; parts that did not change are those of the original, spelling included.
    """
    if before == after:
        return original
    if isinstance(original, dict) and isinstance(after, dict):
        before = before if isinstance(before, dict) else {}
        result = {k: v for k, v in original.items() if k in after or k not in before}
        for key, value in after.items():
            # What is written out at its default may be absent from the original, and stays so.
            if key not in before or before[key] != value:
                result[key] = merge(original.get(key), before.get(key), value)
        return result
    if isinstance(original, list) and isinstance(before, list) and isinstance(after, list):
        partners = _partners(before, after)
        return [
            item if at is None else merge(original[at], before[at], item)
            for item, at in zip(after, partners, strict=True)
        ]
    return after


def merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) that turns one document into the other."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            inner = merge_patch(old[key], value)
            if inner:
                patch[key] = inner
        elif key not in old or old[key] != value:
            patch[key] = value
    return patch


def _partners(before: list[Any], after: list[Any]) -> list[int | None]:
    """For each item of ``after`` the index of the item of ``before`` that it stems from."""
    identities = _identities(before, after)
    if identities is not None:
        old, new = identities
        index = {identity: at for at, identity in enumerate(old)}
        return [index.get(identity) for identity in new]
    # No names: what is unchanged keeps its item, the rest goes by position.
    free = set(range(len(before)))
    partners: list[int | None] = []
    for item in after:
        same = next((at for at in sorted(free) if before[at] == item), None)
        free.discard(-1 if same is None else same)
        partners.append(same)
    for at, partner in enumerate(partners):
        if partner is None and at in free:
            free.discard(at)
            partners[at] = at
    return partners


def _identities(before: list[Any], after: list[Any]) -> tuple[list[Any], list[Any]] | None:
    items = before + after
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    for keys in _IDENTITIES:
        if all(isinstance(item.get(key), str | int) for item in items for key in keys):
            old = [tuple(item[key] for key in keys) for item in before]
            new = [tuple(item[key] for key in keys) for item in after]
            if len(set(old)) == len(old) and len(set(new)) == len(new):
                return old, new
    return None

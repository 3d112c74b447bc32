# SPDX-License-Identifier: Apache-2.0
"""Objects made from one template: what one create has found out serves the next.

The pods of one owner differ in their metadata alone. What the server makes of the rest of such an
object (defaults, admission, checks, its text) is kept by the text of its spec, as long as admission
would do the same again. The metadata is taken through every rule each time.

Other pods have a spec of their own, but its *frame* has come before: what is left when the parts
are taken out that each stand for themselves (``Strategy.split``). A template is then put together
of what a create makes of the frame and of each part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from koord.controlplane import frames
from koord.controlplane.schema.builtin.core_schema import metadata_of

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.extension import Admission
    from koord.controlplane.resource import Resource, StoredParts
    from koord.kernels.splitter import SplitObject

K = TypeVar("K")
T = TypeVar("T")
# The longest spec in bytes, and how many specs are known to have come once.
_LONGEST, _SEEN = 16 << 10, 4096
# Metadata that the rules for the rest of an object look at.
_TOUCHING = frozenset(("finalizers", "managedFields"))
# What a create writes into metadata.
_OF_THE_SERVER = frozenset(
    ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation")
)
_FRAME = len('{"apiVersion":"","kind":"","metadata":,"spec":}')
_LONGER_FRAME = _FRAME + len(',"status":{}')
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class _SentObject(msgspec.Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    """A body that repeats may have: anything else in it goes the long way."""

    api_version: str
    kind: str
    metadata: msgspec.Raw
    spec: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw()


class _StoredObject(msgspec.Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    api_version: str
    kind: str
    metadata: msgspec.Raw
    spec: msgspec.Raw
    status: msgspec.Raw


_read_sent = msgspec.json.Decoder(_SentObject).decode
_read_stored = msgspec.json.Decoder(_StoredObject).decode


class CreateTemplate(msgspec.Struct, frozen=True, gc=False):
    """What a create makes of all that is not metadata.

    Attributes:
        generation: of what admission goes by, for which this is so.
        spec: text as stored.
        status: text as stored.
        fields: values of the selectable fields.
    """

    generation: int | None
    spec: msgspec.Raw
    status: msgspec.Raw
    fields: tuple[str, ...]


class FrameTemplate(msgspec.Struct, frozen=True, gc=False):
    """What a create makes of all that is neither metadata nor a part of the spec.

    Attributes:
        generation: as for a :class:`CreateTemplate`.
        frame_texts: the texts before, between and after the parts of the spec as stored; none for a
            frame that does not stand for itself.
        fields: values of the selectable fields.
    """

    generation: int | None
    frame_texts: list[bytes]
    fields: tuple[str, ...]

    def fill(self, parts: StoredParts) -> CreateTemplate:
        """The template of a spec with these parts."""
        spec = frames.fill(self.frame_texts, parts.texts)
        return CreateTemplate(
            self.generation, msgspec.Raw(spec), msgspec.Raw(parts.status), self.fields
        )


class RepeatedCreate(msgspec.Struct, gc=False):
    """A body whose spec may have come before.

    Attributes:
        key: of its template: storage, namespace, text of the spec.
        metadata: as sent.
        template: None if there is none yet.
        split: the spec by its members, where that was of use.
    """

    key: tuple[str, str, bytes]
    metadata: msgspec.Raw
    template: CreateTemplate | None
    split: SplitObject | None = None

    @property
    def frame_key(self) -> tuple[str, str, bytes] | None:
        """Of the template of its frame: storage, namespace, frame; None for a spec without."""
        return (*self.key[:2], self.split.frame) if self.split is not None else None

    def document(self, resource: Resource) -> Document | None:
        """The new object, spec and status as text; None where the body must be read as a whole."""
        assert self.template is not None
        metadata = metadata_of(self.metadata)
        if metadata is None or not _TOUCHING.isdisjoint(metadata):
            return None
        return {
            "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata,
            "spec": self.template.spec, "status": self.template.status,
        }  # fmt: skip


class CreateCache:
    """The templates known to a server, the oldest forgotten first.

    Args:
        kept: how many there are at most.
    """

    def __init__(self, admission: Admission, kept: int = 1024) -> None:
        self._admission = admission
        self._kept = kept
        self._known: dict[tuple[str, str, bytes], CreateTemplate] = {}
        self._frames: dict[tuple[str, str, bytes], FrameTemplate] = {}
        self._seen: set[int] = set()

    def lookup(self, resource: Resource, namespace: str, body: bytes) -> RepeatedCreate | None:
        """What there is of a body's template; None for a body that is to be read as a whole."""
        try:
            sent = _read_sent(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        spec = bytes(sent.spec)
        if not _is_plain(body, sent, len(spec), resource):
            return None
        key = (resource.storage, namespace, spec)
        template = self._known.get(key)
        if template is None:
            split = resource.strategy.split(spec) if len(spec) <= _LONGEST else None
            repeat = RepeatedCreate(key, sent.metadata, None, split)
            repeat.template = self._of_frame(resource, repeat)
            return repeat
        if template.generation != self._admission.generation(namespace, resource.plural):
            del self._known[key]
            template = None
        return RepeatedCreate(key, sent.metadata, template)

    def _of_frame(self, resource: Resource, repeat: RepeatedCreate) -> CreateTemplate | None:
        """The template of a spec that has not come before, though its frame has."""
        key = repeat.frame_key
        frame = self._frames.get(key) if key is not None else None
        if key is None or frame is None or repeat.split is None:
            return None
        if frame.generation != self._admission.generation(key[1], resource.plural):
            del self._frames[key]
            return None
        if not frame.frame_texts:
            return None
        parts = resource.strategy.stored_parts(repeat.split)
        if parts is None:
            return None
        template = frame.fill(parts)
        if self._came_before(repeat.key):
            self._keep(self._known, repeat.key, template)
        return template

    def store(
        self, resource: Resource, repeat: RepeatedCreate, body: bytes, fields: tuple[str, ...]
    ) -> None:
        """Takes note of what a create without warnings has made of a body.

        Args:
            repeat: what :meth:`lookup` has found of the body sent: no template.
            body: as stored.
            fields: as stored.
        """
        (_, namespace, spec) = repeat.key
        if len(spec) > _LONGEST:
            return
        frame_key = repeat.frame_key
        is_second = self._came_before(repeat.key)
        if frame_key is not None and (
            frame_key in self._frames or not self._came_before(frame_key)
        ):
            frame_key = None
        if not is_second and frame_key is None:
            return
        generation = self._admission.generation(namespace, resource.plural)
        if generation is None:
            return
        try:
            stored = _read_stored(body)
        except msgspec.ValidationError:
            return
        metadata, document = _decode(repeat.metadata), _decode(spec)
        # A spec that says a thing twice, or in other words than JSON needs, is none to go by.
        if _encode(document) != spec or not resource.strategy.repeats(document):
            return
        if _of_the_author(metadata) != _of_the_author(_decode(stored.metadata)):
            return
        if is_second:
            template = CreateTemplate(generation, stored.spec.copy(), stored.status.copy(), fields)
            self._keep(self._known, repeat.key, template)
        if frame_key is not None:
            inside = self._admission.looks_inside(namespace)
            texts = [] if inside else _frame_texts(resource, repeat.split, stored)
            self._keep(self._frames, frame_key, FrameTemplate(generation, texts, fields))

    def _keep(self, table: dict[K, T], key: K, template: T) -> None:
        if len(table) >= self._kept:
            del table[next(iter(table))]
        table[key] = template

    def _came_before(self, key: tuple[Any, ...]) -> bool:
        """Whether a spec or frame comes the second time: most that come once never do again."""
        mark = hash(key)
        if mark in self._seen:
            return True
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen.add(mark)
        return False


def _is_plain(body: bytes, sent: _SentObject, spec: int, resource: Resource) -> bool:
    """Whether a body is just these members, each once: then their lengths say its length.

    Go's clients send an empty status along.
    """
    status = bytes(sent.status)
    frame = _LONGER_FRAME if status else _FRAME
    names = len(resource.api_version) + len(resource.kind)
    return (
        len(body) == frame + names + len(memoryview(sent.metadata)) + spec
        and (not status or status == b"{}")
        and sent.kind == resource.kind
        and sent.api_version == resource.api_version
    )


def _frame_texts(
    resource: Resource, split: SplitObject | None, stored: _StoredObject
) -> list[bytes]:
    """What stands around the parts of a stored spec; empty if it has others by itself."""
    parts = resource.strategy.stored_parts(split) if split is not None else None
    if split is None or parts is None or bytes(stored.status) != parts.status:
        return []
    return frames.frame_texts(bytes(stored.spec), split, parts.texts)


def _of_the_author(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key not in _OF_THE_SERVER and value}

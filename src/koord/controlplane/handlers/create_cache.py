# SPDX-License-Identifier: Apache-2.0
"""Objects made from one template: what one create has found out serves the next.

The pods of one owner differ in their metadata alone. What the server makes of the rest of such an
object (defaults, admission, checks, its text) is kept by the text of its spec, as long as admission
would do the same again. The metadata is taken through every rule each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.controlplane.schema.builtin.core_schema import metadata_of

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.extension import Admission, AdmissionGenerations
    from koord.controlplane.resource import Resource

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
        generations: of what admission goes by, for which this is so.
        spec: text as stored.
        status: text as stored.
        fields: values of the selectable fields.
    """

    generations: AdmissionGenerations
    spec: msgspec.Raw
    status: msgspec.Raw
    fields: tuple[str, ...]


class RepeatedCreate(msgspec.Struct, gc=False):
    """A body whose spec may have come before.

    Attributes:
        key: of its template: storage, namespace, text of the spec.
        metadata: as sent.
        template: None if there is none yet.
    """

    key: tuple[str, str, bytes]
    metadata: msgspec.Raw
    template: CreateTemplate | None

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
        if template is not None:
            generations = self._admission.generations(namespace, resource.plural)
            if template.generations != generations:
                del self._known[key]
                template = None
        return RepeatedCreate(key, sent.metadata, template)

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
        if len(spec) > _LONGEST or not self._came_before(repeat.key):
            return
        generations = self._admission.generations(namespace, resource.plural)
        if generations is None:
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
        if len(self._known) >= self._kept:
            del self._known[next(iter(self._known))]
        self._known[repeat.key] = CreateTemplate(
            generations, stored.spec.copy(), stored.status.copy(), fields
        )

    def _came_before(self, key: tuple[str, str, bytes]) -> bool:
        """Whether a spec comes the second time: most that come once never do again."""
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


def _of_the_author(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key not in _OF_THE_SERVER and value}

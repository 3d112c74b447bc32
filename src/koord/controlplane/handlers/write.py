# SPDX-License-Identifier: Apache-2.0
"""The verbs that write: create, update, patch, and change for handlers.

Every write is one synchronous step unless a webhook is awaited, or the worker because the object is
large; then it may have changed meanwhile, and the step is taken again from the read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from koord.base.worker import Worker
from koord.controlplane import patching
from koord.controlplane.api_errors import already_exists, forbidden, invalid, not_found
from koord.controlplane.extension import Attributes
from koord.controlplane.handlers import metadata
from koord.controlplane.kinds.validation import object_meta
from koord.controlplane.storage import conversion
from koord.controlplane.storage.store import check_size, key_of, ordered

if TYPE_CHECKING:
    import random

    from koord.base.documents import Document
    from koord.controlplane.extension import Admission
    from koord.controlplane.handlers.create_cache import CreateTemplate
    from koord.controlplane.resource import Context, Resource
    from koord.controlplane.storage.collection import Entry
    from koord.controlplane.storage.store import Store

# As kube-apiserver: how often another name is drawn where a generated one is taken.
_NAME_ATTEMPTS = 8

FieldValues = tuple[str, ...]
# Makes the new document from the present one (None: there is none), or raises ApiError.
DocumentFactory = Callable[["Document"], "Document"]


class RequestTarget(msgspec.Struct, frozen=True, gc=False):
    """Which object a request is about."""

    resource: Resource
    namespace: str
    name: str = ""
    subresource: str = ""


@dataclass
class WriteResult:
    """What a write has led to.

    Attributes:
        created: it was not there before.
        fields: values of the selectable fields.
    """

    body: bytes
    created: bool = False
    warnings: list[str] = field(default_factory=list)
    fields: FieldValues = ()


class Verbs:
    """Writes objects by the rules of their resources.

    Args:
        notices: by storage, what whoever creates an object there is warned of.
        worker: does what large objects cost; None does it at once.
    """

    def __init__(
        self,
        store: Store,
        admission: Admission,
        random: random.Random,
        notices: Mapping[str, str] | None = None,
        worker: Worker | None = None,
    ) -> None:
        self.store = store
        self.worker = worker or Worker()
        self.admission = admission
        self.notices = notices or {}
        self._random = random

    def entry(self, target: RequestTarget) -> Entry | None:
        """The object as stored, if it is there."""
        collection = self.store.collection(target.resource.storage)
        return collection.entries.get(key_of(target.namespace, target.name))

    def present(self, target: RequestTarget) -> Entry:
        """The object as stored.

        Raises:
            ApiError: 404.
        """
        entry = self.entry(target)
        if entry is None:
            raise not_found(target.resource, target.name)
        return entry

    def read(self, resource: Resource, namespace: str, name: str) -> Document:
        """A fresh copy of an object.

        Raises:
            ApiError: 404.
        """
        return conversion.document(
            resource, self.present(RequestTarget(resource, namespace, name)).body
        )

    async def create(
        self,
        target: RequestTarget,
        document: Document,
        context: Context,
        options: Document | None = None,
        warnings: list[str] | None = None,
        tracked: bool = False,
        weight_bytes: int = 0,
    ) -> WriteResult:
        """Creates an object from a document that the schema has decoded.

        Args:
            tracked: managedFields tell of the change already.
            weight_bytes: of the document as it came.
        """
        resource = target.resource
        strategy = resource.strategy
        if strategy.closed:
            name = metadata.metadata_of(document).get("name", "")
            raise forbidden(resource, name, strategy.closed)
        base = metadata.begin(resource, document, target.namespace, context.now, self._random)
        await self.worker.call(weight_bytes, _default, resource, document)
        name = document["metadata"].get("name", "")
        attributes = Attributes(
            "CREATE", resource, "", target.namespace, name, document, None, context,
            options or {}, warnings if warnings is not None else [], has_generated_name=bool(base),
        )  # fmt: skip
        await self.admission.mutate(attributes)
        document = attributes.document = await self.worker.call(
            weight_bytes, _checked_new, target, document, context, tracked
        )
        await self.admission.validate(attributes)
        self._claim_name(target, document["metadata"], base)
        if notice := self.notices.get(resource.storage):
            attributes.warnings.append(notice)
        fields = conversion.fields_of(resource, document)
        body = self._put_counted(resource, document, attributes, fields)
        return WriteResult(body, True, attributes.warnings, fields)

    def create_repeat(self, target: RequestTarget, document: Document, template: CreateTemplate,
                      context: Context) -> WriteResult:  # fmt: skip
        """Creates an object whose spec and status are those of a template."""
        resource = target.resource
        base = metadata.begin(resource, document, target.namespace, context.now, self._random)
        if causes := object_meta.validate_create(resource, document):
            raise invalid(resource, document["metadata"].get("name", ""), causes)
        self._claim_name(target, document["metadata"], base)
        entry = self.store.put(resource.storage, document, template.fields)
        return WriteResult(entry.body, True)

    def _claim_name(self, target: RequestTarget, meta: Document, base: str) -> None:
        """Sees to it that a new object's name is free; a generated one is drawn again."""
        entries = self.store.collection(target.resource.storage).entries
        attempts = 0
        while key_of(target.namespace, meta["name"]) in entries:
            attempts += 1
            if not base or attempts > _NAME_ATTEMPTS:
                raise already_exists(target.resource, meta["name"])
            meta["name"] = metadata.generated(base, self._random)

    async def update(
        self,
        target: RequestTarget,
        make: DocumentFactory,
        context: Context,
        options: Document | None = None,
        tracked: bool = False,
        through: str = "",
        weight_bytes: int = 0,
    ) -> WriteResult:
        """Replaces an object by what ``make`` gives for the present one.

        Args:
            make: looks at nothing that others change.
            tracked: managedFields tell of the change already.
            through: the subresource that managedFields name, if not the target's.
            weight_bytes: of what ``make`` reads beside the object.
        """
        while True:
            entry = self.present(target)
            weight = weight_bytes + len(entry.body)
            old, document = await self.worker.call(weight, _made, target.resource, entry, make)
            attributes = await self._prepare(
                target, document, old, context, options, tracked, through, weight
            )
            if self.entry(target) is entry:
                return self._replace(target, entry, attributes)

    async def change(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Callable[[Document], None],
        context: Context,
    ) -> Document:
        """Changes an object in place, past admission and the strategy's checks: for handlers.

        Args:
            change: alters the document it is given; may raise ApiError.

        Returns:
            The object afterwards.
        """
        entry = self.present(RequestTarget(resource, namespace, name))
        document = conversion.document(resource, entry.body)
        change(document)
        self.put(resource, document, context)
        return document

    async def _prepare(
        self,
        target: RequestTarget,
        document: Document,
        old: Document,
        context: Context,
        options: Document | None,
        tracked: bool,
        through: str,
        weight_bytes: int,
    ) -> Attributes:
        """Takes a new version of an object through defaults, admission and checks."""
        resource = target.resource
        metadata.carry_over(resource, document, old, target.namespace)
        await self.worker.call(weight_bytes, _default, resource, document)
        attributes = Attributes(
            "UPDATE", resource, target.subresource, target.namespace, target.name, document, old,
            context, options or {},
        )  # fmt: skip
        await self.admission.mutate(attributes)
        attributes.document = await self.worker.call(
            weight_bytes, _checked, target, document, old, context, tracked, through
        )
        await self.admission.validate(attributes)
        return attributes

    def _replace(self, target: RequestTarget, entry: Entry, attributes: Attributes) -> WriteResult:
        resource, document, old = target.resource, attributes.document, attributes.old
        assert document is not None
        assert old is not None
        document["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if document == old:  # A write that changes nothing is none.
            render = conversion.renderer(resource)
            body = render(entry.body) if render else entry.body
            return WriteResult(body, warnings=attributes.warnings)
        meta = document["metadata"]
        if meta.get("deletionTimestamp") and not (
            meta.get("finalizers")
            or meta.get("deletionGracePeriodSeconds")
            or resource.strategy.stays(document)
        ):
            return WriteResult(self.remove(resource, document, attributes.context))
        fields = conversion.fields_of(resource, document)
        body = self._put_counted(resource, document, attributes, fields)
        return WriteResult(body, warnings=attributes.warnings)

    def _put_counted(
        self, resource: Resource, document: Document, attributes: Attributes, fields: FieldValues
    ) -> bytes:
        """Stores an object, and what admission has counted of it in the same step."""
        body = self._store(self.store.put, resource, document, attributes.context, fields)
        if not attributes.context.dry_run:
            for stored in attributes.on_stored:
                stored()
        return body

    def put(self, resource: Resource, document: Document, context: Context) -> bytes:
        """Stores an object as it is; gives its text."""
        fields = conversion.fields_of(resource, document)
        return self._store(self.store.put, resource, document, context, fields)

    def remove(self, resource: Resource, document: Document, context: Context) -> bytes:
        """Takes an object away; gives its last text."""
        fields = conversion.fields_of(resource, document)
        return self._store(self.store.remove, resource, document, context, fields)

    def _store(
        self,
        write: Callable[..., Entry],
        resource: Resource,
        document: Document,
        context: Context,
        fields: FieldValues,
    ) -> bytes:
        """Stores, removes, or (dry run) only says what would be answered."""
        conversion.to_storage(resource, document)
        if context.dry_run:
            body = conversion.encode(ordered(document))
            if write == self.store.put:
                meta = document["metadata"]
                key = key_of(meta.get("namespace", ""), meta["name"])
                present = self.store.collection(resource.storage).entries.get(key)
                check_size(document, body, present)
        else:
            body = write(resource.storage, document, fields).body
        render = conversion.renderer(resource)
        return render(body) if render else body


def _made(resource: Resource, entry: Entry, make: DocumentFactory) -> tuple[Document, Document]:
    """An object as it is, and what is made of it."""
    old = conversion.document(resource, entry.body)
    return old, make(conversion.document(resource, entry.body))


def _default(resource: Resource, document: Document) -> None:
    resource.strategy.default(document)
    resource.schema.default(document)


def _checked_new(
    target: RequestTarget, document: Document, context: Context, tracked: bool
) -> Document:
    """A new document as it is to be stored.

    Raises:
        ApiError: 422, what is wrong with it.
    """
    resource, strategy = target.resource, target.resource.strategy
    strategy.prepare_create(document, context)
    if not tracked and "managedFields" in document["metadata"]:
        document = _tracked(target, None, document, context)
    causes = object_meta.validate_create(resource, document)
    causes += resource.schema.validate(document)
    causes += strategy.validate(document)
    if causes:
        raise invalid(resource, document["metadata"].get("name", ""), causes)
    return document


def _checked(
    target: RequestTarget,
    document: Document,
    old: Document,
    context: Context,
    tracked: bool,
    through: str,
) -> Document:
    """A changed document as it is to be stored.

    Raises:
        ApiError: 422, what is wrong with it.
    """
    resource, strategy = target.resource, target.resource.strategy
    if not target.subresource:
        strategy.prepare_update(document, old, context)
    else:
        strategy.prepare_subresource(target.subresource, document, old, context)
    metadata.count_generation(resource, document, old)
    if not tracked and "managedFields" in (document["metadata"] | old["metadata"]):
        document = _tracked(target, old, document, context, through)
    causes = object_meta.validate_update(resource, document, old)
    causes += resource.schema.validate(document, old)
    if not target.subresource:
        causes += strategy.validate_update(document, old)
    else:
        causes += strategy.validate_subresource(target.subresource, document, old)
    if causes:
        raise invalid(resource, target.name, causes)
    return document


def _tracked(
    target: RequestTarget,
    old: Document | None,
    document: Document,
    context: Context,
    through: str = "",
) -> Document:
    """The document with managedFields that tell of the change."""
    return patching.track_update(
        old, document, context.manager, through or target.subresource, target.resource.schema,
        context, ignored=ignored_fields(target),
    )  # fmt: skip


def ignored_fields(target: RequestTarget) -> frozenset[str]:
    """Top-level fields that a way in does not change, so that nobody comes to own them there."""
    if target.subresource:
        return frozenset(("spec",)) if target.subresource == "status" else frozenset()
    return frozenset(("status",)) if target.resource.strategy.status_subresource else frozenset()
